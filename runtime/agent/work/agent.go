// Package work carries out ManifestWorks in a managed cluster: it applies their
// manifests, restores what others change, reports on them, and removes what it
// made when a work is deleted.
//
// What a work has made is recorded in the managed cluster itself, in an
// AppliedManifestWork that owns the objects. So the agent can be killed at any
// moment, and the hub can be away or lose its memory, without an object being
// orphaned or deleted by mistake.
//
// This package holds the two controllers, for ManifestWorks on the hub and for
// AppliedManifestWorks in the managed cluster, and the requests for these two
// kinds. A pass over a work has four stages: read, decide, apply and report. The
// packages below go in one direction: manifest reads the manifests, report makes
// the status, decide makes the plan, applier applies the manifests, and watches
// says which objects have changed. None of them imports this one.
package work

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/semaphore"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/featuregate"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/engine"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/applier"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/decide"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/report"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/watches"
	apiwork "github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	"github.com/muster-fleet/terraform-provider-muster/runtime/features"
)

const (
	// workers is how many works are carried out at a time, and writers how many objects
	// of all of them.
	workers = 10
	writers = 20
	// minRetry is how long a work pauses that has failed once.
	minRetry = 5 * time.Millisecond
)

// agent holds what the two controllers share.
type agent struct {
	clusterName, agentID, hubHash string
	evictionGracePeriod           time.Duration
	derive                        bool // Progressing and Degraded without rules
	clock                         clock.Clock
	log                           *slog.Logger

	engine     *engine.Engine
	hub, local client.Client // read from caches
	mapper     meta.RESTMapper
	rights     *applier.Rights
	applier    *applier.Applier
	inspector  *report.Inspector
	watches    *watches.Watches
	writers    *semaphore.Weighted

	memory  *decide.Memory
	written *engine.Written // works
	events  *events
	metrics *Metrics

	works, applied *engine.Queue
}

// newAgent prepares an agent. It sends no request.
func newAgent(o Options) (*agent, error) {
	o.complete()
	e, err := newEngine(o)
	if err != nil {
		return nil, err
	}
	clients, err := applier.Connect(e.Local.GetConfig(), e.Local.GetHTTPClient())
	if err != nil {
		return nil, err
	}
	a := &agent{
		clusterName: o.ClusterName, agentID: o.AgentID, hubHash: apiwork.HubHash(o.HubHost),
		evictionGracePeriod: o.EvictionGracePeriod, derive: o.Features.Enabled(features.DerivedProgressing),
		clock: o.Clock, log: o.Log, metrics: o.Metrics,
		engine: e, hub: e.GetClient(), local: e.Local.GetClient(), mapper: clients.Mapper,
		memory: decide.NewMemory(), written: engine.NewWritten(o.Clock), writers: semaphore.NewWeighted(writers),
		events: newEvents(e.GetEventRecorder(userAgent)),
		works:  engine.NewQueue(o.ClusterName, minRetry), applied: engine.NewQueue("", minRetry),
	}
	if a.inspector, err = report.NewInspector(o.Clock, o.maxRaw()); err != nil {
		return nil, err
	}
	var grants *applier.Grants
	if o.Features.Enabled(features.ExecutorValidatingCaches) {
		grants = applier.NewGrants(clients.Metadata, o.Clock, o.Log, a.rightsChanged)
		if err := e.Add(grants); err != nil {
			return nil, err
		}
	}
	if a.rights, err = applier.NewRights(a.local, e.Local.GetConfig(), grants); err != nil {
		return nil, err
	}
	a.watches = watches.New(clients.Metadata, o.Clock, o.Log, a.works.Add)
	a.applier = applier.New(clients.Dynamic, a.rights, a.watches, o.Clock, a.metrics.updateConflicted)
	return a, a.registerControllers(e.GetCache(), e.Local.GetCache())
}

// run carries out works until ctx ends.
func (a *agent) run(ctx context.Context) error {
	defer a.metrics.reset()
	defer a.watches.Stop()
	return a.engine.Start(ctx)
}

// rightsChanged queues the works whose executors may have gained or lost rights.
func (a *agent) rightsChanged() {
	for _, name := range a.memory.ForgetRights() {
		a.works.Add(name)
	}
}

// workKey is where a work is on the hub.
func (a *agent) workKey(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: a.clusterName, Name: name}
}

const (
	// DefaultEvictionGracePeriod is how long the objects of a work stay that the
	// hub no longer has, in case it comes back.
	DefaultEvictionGracePeriod = time.Hour
	// DefaultMaxJSONRawLength is the longest JSON, in bytes, that feedback holds.
	DefaultMaxJSONRawLength = 1024
)

// Options say whose works are carried out where.
type Options struct {
	// ClusterName is the hub namespace that holds the works.
	ClusterName string
	// AgentID marks the AppliedManifestWorks that are this agent's; the hub's hash
	// by default.
	AgentID string
	// HubHost is the hub's URL exactly as in the agent's kubeconfig.
	HubHost string
	// Hub and ManagedCluster are the ways to both sides.
	Hub, ManagedCluster *rest.Config
	// EvictionGracePeriod is how long the objects of a work stay that the hub no
	// longer has; an hour by default.
	EvictionGracePeriod time.Duration
	// Features are the agent's gates; features.NewAgent by default.
	Features featuregate.FeatureGate
	// MaxJSONRawLength is the longest JSON, in bytes, that feedback may hold with
	// the gate features.RawFeedbackJSONString; 1024 by default.
	MaxJSONRawLength int
	// Metrics, when given, count the works by state and the applied objects.
	Metrics *Metrics
	// Log is the agent's logger, with the cluster's name; nothing is logged by
	// default.
	Log *slog.Logger
	// Clock is the real one by default.
	Clock clock.Clock
}

// Run carries out works until ctx ends, and returns nil then. It returns an
// error only when it cannot start.
func Run(ctx context.Context, o Options) error {
	a, err := newAgent(o)
	if err != nil {
		return fmt.Errorf("prepare to carry out works: %w", err)
	}
	if err := a.run(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("carry out works: %w", err)
	}
	return nil
}

// complete sets defaults.
func (o *Options) complete() {
	if o.AgentID == "" {
		o.AgentID = apiwork.HubHash(o.HubHost)
	}
	if o.EvictionGracePeriod == 0 {
		o.EvictionGracePeriod = DefaultEvictionGracePeriod
	}
	if o.MaxJSONRawLength == 0 {
		o.MaxJSONRawLength = DefaultMaxJSONRawLength
	}
	if o.Features == nil {
		o.Features = features.NewAgent()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
}

// maxRaw is the longest JSON, in bytes, that feedback may hold; 0 for none.
func (o *Options) maxRaw() int {
	if o.Features.Enabled(features.RawFeedbackJSONString) {
		return o.MaxJSONRawLength
	}
	return 0
}

// userAgent is what the agent calls itself in requests.
const userAgent = "work-agent"

// newEngine prepares the ways to both sides. It sends no request.
func newEngine(o Options) (*engine.Engine, error) {
	return engine.New(engine.Options{
		Hub: o.Hub, ManagedCluster: o.ManagedCluster, UserAgent: userAgent, Log: o.Log,
		HubCache: cache.Options{DefaultNamespaces: map[string]cache.Config{o.ClusterName: {}}},
	})
}
