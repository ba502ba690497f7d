// Package status reports to the hub how the managed cluster is: joined,
// available, its version and size, and what it claims about itself. It reads the
// ManagedCluster and the managed cluster from mirrors, writes the status of the
// one and the namespaces of the other, and must not import registration.
package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/retry"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/loop"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/mirror"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/event"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
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

// reconcile brings the ManagedCluster's status up to date in one write, and
// returns after how long to look again.
func (c *Controller) reconcile(ctx context.Context) (after time.Duration, err error) {
	after = c.HealthPeriod
	mc := c.latest()
	if mc == nil {
		if filled(c.Clusters.Filled()) && filled(c.present.Filled()) {
			return after, c.namespaces.release(ctx, nil, c.present.Objects())
		}
		return after, nil
	}
	if !meta.IsStatusConditionTrue(mc.Status.Conditions, cluster.ConditionHubAccepted) {
		return after, nil
	}
	if meta.IsStatusConditionFalse(mc.Status.Conditions, cluster.ConditionClockSynced) {
		return after, errClock
	}
	if left := c.awaitClock(mc); left > 0 {
		return left, nil
	}
	mc, errAmend := c.amend(ctx, mc)
	reported := mc.DeepCopy()
	c.reportJoined(reported)
	available, soon := c.reportAvailable(ctx, reported)
	if soon {
		after = recheck
	}
	var errFacts, errNamespaces error
	if available {
		errFacts = c.reportFacts(ctx, reported)
		errNamespaces = c.reportNamespaces(ctx, reported)
	}
	if err := c.write(ctx, mc, reported); err != nil {
		return after, err
	}
	for _, err := range []error{errAmend, errFacts, errNamespaces} {
		if err != nil {
			return after, err
		}
	}
	return after, nil
}

// clockTimeout is how long the first report waits for the hub to judge the clock.
const clockTimeout = time.Second

// awaitClock returns how long to wait for the hub to judge the cluster's clock,
// which it does after the first heartbeat, with a write to the same object. A
// report at the same moment would conflict with it. Hubs that do not judge clocks
// are not waited for long.
func (c *Controller) awaitClock(mc *clusterv1.ManagedCluster) time.Duration {
	if meta.FindStatusCondition(mc.Status.Conditions, cluster.ConditionClockSynced) != nil {
		return 0
	}
	if c.accepted.IsZero() {
		c.accepted = c.Clock.Now()
	}
	return clockTimeout - c.Clock.Since(c.accepted)
}

func filled(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// amend lists the cluster's addresses that its ManagedCluster lacks, and keeps the
// agent's annotations. Only the agent's own rights allow that: a bootstrap identity
// may create the object but not change it.
func (c *Controller) amend(ctx context.Context, mc *clusterv1.ManagedCluster) (*clusterv1.ManagedCluster, error) {
	updated := mc.DeepCopy()
	missing := missingConfigs(mc.Spec.ManagedClusterClientConfigs, c.ClientConfigs)
	updated.Spec.ManagedClusterClientConfigs = append(updated.Spec.ManagedClusterClientConfigs, missing...)
	if !c.annotate(updated) && len(missing) == 0 {
		return mc, nil
	}
	if err := c.Hub.Update(ctx, updated); err != nil {
		return mc, fmt.Errorf("write the cluster's addresses and the agent's annotations into its ManagedCluster: %w", err)
	}
	c.wrote(mc, updated)
	return updated, nil
}

// annotate sets the annotations to keep, and reports whether one has changed.
func (c *Controller) annotate(mc *clusterv1.ManagedCluster) (changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, value := range c.annotations {
		have, ok := mc.Annotations[key]
		switch {
		case value == "" && ok:
			delete(mc.Annotations, key)
		case value != "" && have != value:
			metav1.SetMetaDataAnnotation(&mc.ObjectMeta, key, value)
		default:
			continue
		}
		changed = true
	}
	return changed
}

// missingConfigs are those of the wanted addresses that are not listed.
func missingConfigs(have, want []clusterv1.ClientConfig) []clusterv1.ClientConfig {
	return slices.DeleteFunc(slices.Clone(want), func(w clusterv1.ClientConfig) bool {
		return slices.ContainsFunc(have, func(h clusterv1.ClientConfig) bool { return h.URL == w.URL })
	})
}

func (c *Controller) reportJoined(mc *clusterv1.ManagedCluster) {
	c.set(mc, metav1.Condition{
		Type: cluster.ConditionJoined, Status: metav1.ConditionTrue,
		Reason: cluster.ReasonJoined, Message: cluster.MessageJoined,
	})
	c.mu.Lock()
	reported := slices.SortedFunc(maps.Values(c.reported), func(a, b metav1.Condition) int { return strings.Compare(a.Type, b.Type) })
	c.mu.Unlock()
	for _, condition := range reported {
		c.set(mc, condition)
	}
}

// reportAvailable returns whether the API server is well, and whether to look
// again soon.
func (c *Controller) reportAvailable(ctx context.Context, mc *clusterv1.ManagedCluster) (ok, soon bool) {
	h := c.prober.probe(ctx)
	if ctx.Err() != nil {
		return false, true
	}
	failingFor := time.Duration(0)
	if !h.ok() {
		failingFor = c.Clock.Since(c.prober.failing)
		c.Log.Debug("the managed cluster's API server is not well", "code", h.code, "detail", h.detail, "for", failingFor)
	}
	condition, decided := availability(h, failingFor)
	if decided && !c.heartStopped(mc) {
		c.set(mc, condition)
	}
	return h.ok(), !h.ok()
}

// heartStopped reports whether the hub calls the cluster unknown because its
// heartbeats stopped, and there has been none since. If the agent contradicted the
// hub then, the two would overwrite each other without end.
func (c *Controller) heartStopped(mc *clusterv1.ManagedCluster) bool {
	have := meta.FindStatusCondition(mc.Status.Conditions, cluster.ConditionAvailable)
	if have == nil || have.Status != metav1.ConditionUnknown || have.Reason != cluster.ReasonLeaseUpdateStopped {
		return false
	}
	return c.Clock.Since(c.LastBeat()) > 2*mc.Spec.LeaseDuration()
}

// reportFacts adds version, size and claims.
func (c *Controller) reportFacts(ctx context.Context, mc *clusterv1.ManagedCluster) error {
	if filled(c.nodes.Filled()) {
		var capacity clusterv1.ResourceList
		capacity, mc.Status.Allocatable = sum(c.nodes.Objects())
		mc.Status.Capacity = merge(mc.Status.Capacity, capacity)
	}
	if filled(c.facts.known()) {
		var left int
		mc.Status.ClusterClaims, left = c.Claims.collect(c.facts.objects())
		if left != c.leftOut && left > 0 {
			c.Log.Warn("CustomClusterClaimsTruncated: not all cluster claims are reported to the hub: "+
				"allow more of them with --max-custom-cluster-claims, or delete some",
				"leftOut", left, "max", c.Claims.MaxCustom)
		}
		c.leftOut = left
	}
	v, err := c.version(ctx)
	if err != nil {
		return err
	}
	mc.Status.Version.Kubernetes = v
	return nil
}

func (c *Controller) version(ctx context.Context) (string, error) {
	body, err := c.LocalREST.Get().AbsPath("/version").MaxRetries(0).Do(ctx).Raw()
	if err != nil {
		return "", fmt.Errorf("ask the managed cluster's API server for its version: %w", err)
	}
	var info version.Info
	if err := json.Unmarshal(body, &info); err != nil {
		return "", fmt.Errorf("read the version of the managed cluster's API server: %w", err)
	}
	return info.GitVersion, nil
}

// reportNamespaces makes the namespaces that the cluster's sets want and
// reports on each of them.
func (c *Controller) reportNamespaces(ctx context.Context, mc *clusterv1.ManagedCluster) error {
	if !filled(c.present.Filled()) {
		return nil
	}
	present := c.present.Objects()
	c.namespaces.apply(ctx, mc.Status.ManagedNamespaces, present)
	return c.namespaces.release(ctx, mc.Status.ManagedNamespaces, present)
}

func (c *Controller) set(mc *clusterv1.ManagedCluster, condition metav1.Condition) {
	condition.LastTransitionTime = metav1.NewTime(c.Clock.Now())
	meta.SetStatusCondition(&mc.Status.Conditions, condition)
}

// write stores what has changed, if anything has, and makes an event of a change
// of availability.
func (c *Controller) write(ctx context.Context, from, to *clusterv1.ManagedCluster) error {
	now := from.DeepCopy()
	wrote, err := patch.Status(ctx, c.Hub, now, func() bool {
		now.Status = to.Status
		return !equality.Semantic.DeepEqual(from.Status, to.Status)
	})
	if err != nil {
		return fmt.Errorf("report the status of the cluster %s: %w", from.Name, err)
	}
	if !wrote {
		return nil
	}
	c.wrote(from, now)
	if event := availabilityEvent(from, to, c.Instance, c.Clock); event != nil {
		c.Log.Info(event.Note)
		if err := c.Hub.Create(ctx, event); err != nil {
			c.Log.Debug("cannot create an event on the hub", "reason", event.Reason, "err", err)
		}
	}
	return nil
}

// availabilityEvent is the event for the hub when the availability of a cluster
// has changed, or nil when it has not.
//
// No recorder makes it: those of client-go name the machine as the reporting instance,
// where upstream's agents name themselves.
func availabilityEvent(old, new *clusterv1.ManagedCluster, instance string, clk clock.PassiveClock) *eventsv1.Event {
	was := meta.FindStatusCondition(old.Status.Conditions, cluster.ConditionAvailable)
	is := meta.FindStatusCondition(new.Status.Conditions, cluster.ConditionAvailable)
	if is == nil || was != nil && was.Status == is.Status {
		return nil
	}
	kind, reason, format := corev1.EventTypeNormal, cluster.ReasonEventAvailable, cluster.FormatEventAvailable
	if is.Status != metav1.ConditionTrue {
		kind, reason, format = corev1.EventTypeWarning, cluster.ReasonEventUnavailable, cluster.FormatEventUnavailable
	}
	source := event.Source{Controller: cluster.AgentReportingController, Instance: instance, Clock: clk}
	e := source.New(corev1.ObjectReference{
		APIVersion: clusterv1.GroupVersion.String(), Kind: "ManagedCluster",
		Name: new.Name, UID: new.UID, Namespace: new.Name,
	}, event.What{Type: kind, Reason: reason, Action: reason, Note: fmt.Sprintf(format, new.Name)})
	e.Name = fmt.Sprintf("%s.%x", new.Name, e.EventTime.UnixNano())
	return e
}
