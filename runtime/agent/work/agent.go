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
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/applier"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/executor"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/inspect"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/memory"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/watches"
	apiwork "github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	"github.com/muster-fleet/terraform-provider-muster/runtime/features"
)

// workers is how many works are carried out at a time, and writers how many
// objects of all of them.
const (
	workers = 10
	writers = 20
)

// agent holds what the two controllers share.
type agent struct {
	clusterName, agentID, hubHash string
	evictionGracePeriod           time.Duration
	derive                        bool // Progressing and Degraded without rules
	clock                         clock.Clock
	log                           *slog.Logger

	manager    manager.Manager
	hub, local client.Client // read from caches
	mapper     meta.RESTMapper
	rights     *executor.Rights
	applier    *applier.Applier
	inspector  *inspect.Inspector
	watches    *watches.Watches
	writers    *semaphore.Weighted

	memory    *memory.Memory
	freshness *freshness
	events    *events
	metrics   *Metrics

	works, applied *queue
}

// newAgent prepares an agent. It sends no request.
func newAgent(o Options) (*agent, error) {
	o.complete()
	s, err := connect(o)
	if err != nil {
		return nil, err
	}
	a := &agent{
		clusterName: o.ClusterName, agentID: o.AgentID, hubHash: apiwork.HubHash(o.HubHost),
		evictionGracePeriod: o.EvictionGracePeriod, derive: o.Features.Enabled(features.DerivedProgressing),
		clock: o.Clock, log: o.Log, metrics: o.Metrics,
		manager: s.manager, hub: s.manager.GetClient(), local: s.local.GetClient(), mapper: s.mapper,
		memory: memory.New(), freshness: newFreshness(o.Clock), writers: semaphore.NewWeighted(writers),
		events: newEvents(s.manager.GetEventRecorder(userAgent)),
		works:  newQueue(o.ClusterName), applied: newQueue(""),
	}
	if a.inspector, err = inspect.New(o.Clock, o.maxRaw()); err != nil {
		return nil, err
	}
	var grants *executor.Grants
	if o.Features.Enabled(features.ExecutorValidatingCaches) {
		grants = executor.NewGrants(s.metadata, o.Clock, o.Log, a.rightsChanged)
		if err := s.manager.Add(grants); err != nil {
			return nil, err
		}
	}
	a.rights = executor.NewRights(a.local, configFor(o.ManagedCluster), grants)
	a.applier = applier.New(s.dynamic, a.rights, func() { a.metrics.conflict(updateConflict) })
	a.watches = watches.New(s.metadata, o.Clock, o.Log, a.works.add)
	return a, a.registerControllers(s.manager.GetCache(), s.local.GetCache())
}

// run carries out works until ctx ends.
func (a *agent) run(ctx context.Context) error {
	defer a.metrics.reset()
	defer a.watches.Stop()
	return a.manager.Start(ctx)
}

// rightsChanged queues the works whose executors may have gained or lost rights.
func (a *agent) rightsChanged() {
	for _, name := range a.memory.DoubtRights() {
		a.works.add(name)
	}
}

// changesSince is a patch of what has changed since before. It fails with a
// conflict when the object is another by then.
func changesSince(before client.Object) client.Patch {
	return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
}

// workKey is where a work is on the hub.
func (a *agent) workKey(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: a.clusterName, Name: name}
}
