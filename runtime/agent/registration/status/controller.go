// Package status reports to the hub how the managed cluster is: joined,
// available, its version and size, and what it claims about itself. It reads the
// ManagedCluster and the managed cluster from mirrors, writes the status of the
// one and the namespaces of the other, and must not import registration.
package status

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/retry"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/loop"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/mirror"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// DefaultHealthPeriod is how often a healthy API server is looked at.
const DefaultHealthPeriod = time.Minute

const (
	mergePatch = types.MergePatchType

	// fillTimeout is how long the first report waits for what the managed
	// cluster has to say, so that one report has it all.
	fillTimeout = 3 * time.Second
	// writeTimeout bounds one pass.
	writeTimeout = 30 * time.Second
)

// Options are what the controller needs.
type Options struct {
	ClusterName string
	// Instance distinguishes this agent from others in events.
	Instance string
	// HubURL is the address of the hub, as in the agent's kubeconfig.
	HubURL string

	// Hub writes the ManagedCluster.
	Hub client.Client
	// Clusters mirrors it.
	Clusters *mirror.Mirror[*clusterv1.ManagedCluster]

	// Local reads the managed cluster.
	Local client.WithWatch
	// LocalREST asks its API server for its health and version.
	LocalREST rest.Interface

	Claims ClaimRules
	// ClientConfigs are addresses of the managed cluster that its
	// ManagedCluster shall list.
	ClientConfigs []clusterv1.ClientConfig

	// HealthPeriod is how often the API server is looked at while it is well;
	// DefaultHealthPeriod by default.
	HealthPeriod time.Duration

	// LastBeat is when the lease was renewed last.
	LastBeat func() time.Time

	// Await, if set, are closed when what else belongs into the first report is
	// known. They are waited for as the rest of it is.
	Await []<-chan struct{}

	Clock clock.Clock
	Log   *slog.Logger
}

// Controller writes the status of one ManagedCluster.
type Controller struct {
	Options
	prober     prober
	nodes      *mirror.Mirror[*corev1.Node]
	facts      *facts
	present    *mirror.Mirror[*corev1.Namespace]
	namespaces namespaces
	news       loop.Signal

	// written is what the last write returned, and base the version it was
	// computed from: until the mirror has moved on from base, written is news.
	written *clusterv1.ManagedCluster
	base    string
	// problem keeps quiet about what is wrong while it stays the same; leftOut
	// is how many claims were left out last.
	problem retry.Once
	leftOut int
	failing *retry.Backoff
	// accepted is when the hub was first seen to have accepted the cluster.
	accepted time.Time

	mu          sync.Mutex
	reported    map[string]metav1.Condition // by type
	annotations map[string]string           // to keep; "" is none
}

// New makes the controller.
func New(o Options) *Controller {
	label := cluster.ManagedNamespaceLabel(o.HubURL)
	if o.HealthPeriod == 0 {
		o.HealthPeriod = DefaultHealthPeriod
	}
	return &Controller{
		Options:    o,
		prober:     prober{client: o.LocalREST, clock: o.Clock},
		namespaces: namespaces{client: o.Local, label: label},
		news:       loop.NewSignal(),
		failing:    retry.New(o.Clock, retry.Quick(30*time.Second)),
		nodes: mirror.New(mirror.Options[*corev1.Node]{
			Client: o.Local, List: &corev1.NodeList{}, Clock: o.Clock, Strip: stripNode, Same: sameNode,
			Report: reporter(o.Log, "nodes"),
		}),
		facts: newFacts(o),
		present: mirror.New(mirror.Options[*corev1.Namespace]{
			Client: o.Local, List: &corev1.NamespaceList{}, Clock: o.Clock, Strip: stripNamespace, Same: sameLabel(label),
			Select: []client.ListOption{client.MatchingLabels{label: managed}},
			Report: reporter(o.Log, "managed namespaces"),
		}),
	}
}

func reporter(log *slog.Logger, what string) func(error) {
	return func(err error) {
		if err != nil {
			log.Debug("cannot watch the managed cluster's "+what+", trying again", "err", err)
		}
	}
}

// Trigger makes the controller look again.
func (c *Controller) Trigger() { c.news.Set() }

// Report makes the controller report a condition that others know of, such as how
// the renewal of the agent's certificate went.
func (c *Controller) Report(condition metav1.Condition) {
	c.mu.Lock()
	if c.reported == nil {
		c.reported = map[string]metav1.Condition{}
	}
	c.reported[condition.Type] = condition
	c.mu.Unlock()
	c.Trigger()
}

// Annotate makes the controller keep an annotation of the ManagedCluster: the value
// "" is none.
func (c *Controller) Annotate(key, value string) {
	c.mu.Lock()
	before, known := c.annotations[key]
	if c.annotations == nil {
		c.annotations = map[string]string{}
	}
	c.annotations[key] = value
	c.mu.Unlock()
	if !known || before != value {
		c.Trigger()
	}
}

// Run reports until ctx ends: on every change, and in between as often as the
// health of the API server is looked at.
func (c *Controller) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { c.nodes.Run(ctx) })
	running.Go(func() { c.facts.run(ctx) })
	running.Go(func() { c.present.Run(ctx) })
	c.facts.notify(c.news)
	c.nodes.Notify(c.news)
	c.present.Notify(c.news)
	c.Clusters.Notify(c.news)
	c.awaitFilled(ctx)
	loop.Run(ctx, c.Clock, c.news, 0, c.pass)
}

func (c *Controller) awaitFilled(ctx context.Context) {
	timeout := c.Clock.NewTimer(fillTimeout)
	defer timeout.Stop()
	for _, filled := range append([]<-chan struct{}{c.nodes.Filled(), c.facts.known(), c.present.Filled(), c.Clusters.Filled()}, c.Await...) {
		select {
		case <-filled:
		case <-timeout.C():
			return
		case <-ctx.Done():
			return
		}
	}
}

// pass reconciles once and returns after how long to do so again.
func (c *Controller) pass(ctx context.Context) time.Duration {
	bounded, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	after, err := c.reconcile(bounded)
	if err == nil {
		c.failing.Reset()
		c.problem.Clear()
		return after
	}
	if ctx.Err() != nil {
		return after
	}
	c.complain(ctx, err)
	return min(after, c.failing.Next())
}

// complain logs an error, once as long as it stays the same. A collision with
// another writer, or the loss of rights, is part of normal life.
func (c *Controller) complain(ctx context.Context, err error) {
	level := slog.LevelWarn
	if apierrors.IsConflict(err) || apierrors.IsForbidden(err) || !c.problem.Changed(err.Error()) {
		level = slog.LevelDebug
	}
	c.Log.Log(ctx, level, "cannot report the cluster's status, trying again", "err", err)
}

// latest is the ManagedCluster as it is known best.
func (c *Controller) latest() *clusterv1.ManagedCluster {
	mc, ok := c.Clusters.Get(c.ClusterName)
	if !ok {
		c.written = nil
		return nil
	}
	if c.written != nil && c.written.UID == mc.UID && mc.ResourceVersion == c.base {
		return c.written
	}
	c.written = nil
	return mc
}

func (c *Controller) wrote(from, to *clusterv1.ManagedCluster) {
	if c.written == nil { // a second write before the mirror moved keeps the first one's base
		c.base = from.ResourceVersion
	}
	c.written = to
}

// errClock keeps the agent from reporting, as times in its report would
// mislead.
var errClock = errors.New("the managed cluster's clock is out of sync, so its status is not reported: " +
	"set the clocks of hub and cluster right")
