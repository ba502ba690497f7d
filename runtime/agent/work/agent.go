package work

import (
	"context"
	"log/slog"
	"time"

	"golang.org/x/sync/semaphore"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
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
	clients, err := newClients(e.Local)
	if err != nil {
		return nil, err
	}
	a := &agent{
		clusterName: o.ClusterName, agentID: o.AgentID, hubHash: apiwork.HubHash(o.HubHost),
		evictionGracePeriod: o.EvictionGracePeriod, derive: o.Features.Enabled(features.DerivedProgressing),
		clock: o.Clock, log: o.Log, metrics: o.Metrics,
		engine: e, hub: e.GetClient(), local: e.Local.GetClient(), mapper: clients.mapper,
		memory: decide.NewMemory(), written: engine.NewWritten(o.Clock), writers: semaphore.NewWeighted(writers),
		events: newEvents(e.GetEventRecorder(userAgent)),
		works:  engine.NewQueue(o.ClusterName, minRetry), applied: engine.NewQueue("", minRetry),
	}
	if a.inspector, err = report.NewInspector(o.Clock, o.maxRaw()); err != nil {
		return nil, err
	}
	var grants *applier.Grants
	if o.Features.Enabled(features.ExecutorValidatingCaches) {
		grants = applier.NewGrants(clients.metadata, o.Clock, o.Log, a.rightsChanged)
		if err := e.Add(grants); err != nil {
			return nil, err
		}
	}
	if a.rights, err = applier.NewRights(a.local, e.Local.GetConfig(), grants); err != nil {
		return nil, err
	}
	a.watches = watches.New(clients.metadata, o.Clock, o.Log, a.works.Add)
	a.applier = applier.New(clients.dynamic, a.rights, a.watches, o.Clock, a.metrics.updateConflicted)
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
