// Package work carries out ManifestWorks in a managed cluster: it applies their
// manifests, keeps them as they should be, reports how they fare, and deletes
// what it made when a work goes.
//
// What a work has made is remembered in the managed cluster itself, in an
// AppliedManifestWork that owns the objects. So the agent can be killed at any
// moment, and the hub can be away or lose its memory, without an object being
// orphaned or deleted by mistake.
package work

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"golang.org/x/sync/semaphore"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/component-base/featuregate"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/muster-fleet/terraform-provider-muster/internal/restmapper"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/applier"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/executor"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/inspect"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/memory"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/watches"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/features"
)

const (
	// userAgent is what the agent calls itself in requests to the managed cluster.
	userAgent = "work-agent"

	// workers is how many works are carried out at a time, and writers how many
	// objects of all of them.
	workers = 10
	writers = 20

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
	// AgentID tells whose AppliedManifestWorks are this agent's. The hub's hash
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
	// Metrics, when given, tell how the works fare.
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
	return a.run(ctx)
}

// agent holds what the two reconcilers share.
type agent struct {
	clusterName, agentID, hubHash string
	evictionGracePeriod           time.Duration
	clock                         clock.Clock

	hub, local           client.Client // read from caches
	hubCache, localCache cache.Cache
	mapper               meta.RESTMapper
	objects              *applier.Applier
	rights               *executor.Rights
	grants               *executor.Grants // nil without the gate ExecutorValidatingCaches
	events               *events
	metrics              *Metrics
	inspector            *inspect.Inspector
	derive               bool // Progressing and Degraded without rules
	watches              *watches.Watches
	memory               *memory.Memory
	freshness            *freshness
	writers              *semaphore.Weighted
	log                  *slog.Logger

	works, applied *queue
}

func newAgent(o Options) (*agent, error) {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
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
	a := &agent{
		clusterName: o.ClusterName, agentID: o.AgentID, hubHash: work.HubHash(o.HubHost),
		evictionGracePeriod: o.EvictionGracePeriod, clock: o.Clock,
		metrics: o.Metrics, derive: o.Features.Enabled(features.DerivedProgressing),
		memory: memory.New(), freshness: newFreshness(o.Clock), writers: semaphore.NewWeighted(writers), log: o.Log,
	}
	maxRaw := 0
	if o.Features.Enabled(features.RawFeedbackJSONString) {
		maxRaw = o.MaxJSONRawLength
	}
	if a.agentID == "" {
		a.agentID = a.hubHash
	}
	hub := configFor(o.Hub)
	local := configFor(o.ManagedCluster)
	var err error
	if a.inspector, err = inspect.New(o.Clock, maxRaw); err != nil {
		return nil, err
	}
	if a.hub, a.hubCache, err = cached(hub, cache.Options{DefaultNamespaces: map[string]cache.Config{o.ClusterName: {}}}); err != nil {
		return nil, fmt.Errorf("connect to the hub: %w", err)
	}
	if a.local, a.localCache, err = cached(local, cache.Options{}); err != nil {
		return nil, fmt.Errorf("connect to the managed cluster: %w", err)
	}
	httpClient, err := rest.HTTPClientFor(local)
	if err != nil {
		return nil, err
	}
	if a.mapper, err = apiutil.NewDynamicRESTMapper(local, httpClient); err != nil {
		return nil, err
	}
	dyn, err := dynamic.NewForConfigAndClient(local, httpClient)
	if err != nil {
		return nil, err
	}
	meta, err := metadata.NewForConfigAndClient(local, httpClient)
	if err != nil {
		return nil, err
	}
	direct, err := client.New(local, client.Options{HTTPClient: httpClient, Scheme: api.NewScheme(), Mapper: restmapper.Static()})
	if err != nil {
		return nil, err
	}
	hubHTTP, err := rest.HTTPClientFor(hub)
	if err != nil {
		return nil, err
	}
	if a.events, err = newEvents(hub, hubHTTP, api.NewScheme()); err != nil {
		return nil, err
	}
	if o.Features.Enabled(features.ExecutorValidatingCaches) {
		a.grants = executor.NewGrants(meta, o.Clock, o.Log, a.rightsChanged)
	}
	a.rights = executor.NewRights(direct, local, a.grants)
	a.objects = applier.New(dyn, a.rights, func() { a.metrics.conflict(updateConflict) })
	a.works = newQueue("manifestwork", o.Log, a.reconcileWork)
	a.applied = newQueue("appliedmanifestwork", o.Log, a.reconcileApplied)
	a.watches = watches.New(meta, o.Clock, o.Log, func(name string) { a.works.add(name) })
	return a, nil
}

func configFor(given *rest.Config) *rest.Config {
	c := rest.CopyConfig(given)
	c.UserAgent, c.QPS = userAgent, -1
	return c
}

// cached makes a client that reads from a cache, and the cache.
func cached(config *rest.Config, o cache.Options) (client.Client, cache.Cache, error) {
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, nil, err
	}
	o.HTTPClient, o.Scheme, o.Mapper = httpClient, api.NewScheme(), restmapper.Static()
	o.DefaultTransform = cache.TransformStripManagedFields()
	caching, err := cache.New(config, o)
	if err != nil {
		return nil, nil, err
	}
	c, err := client.New(config, client.Options{
		HTTPClient: httpClient, Scheme: o.Scheme, Mapper: o.Mapper, Cache: &client.CacheOptions{Reader: caching},
	})
	return c, caching, err
}

func (a *agent) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer a.events.Stop()
	defer a.metrics.reset()
	if err := a.listen(ctx); err != nil {
		return err
	}
	errs := make(chan error, 2)
	go func() { errs <- a.hubCache.Start(ctx) }()
	go func() { errs <- a.localCache.Start(ctx) }()
	// Without a full view of both sides nothing can be judged: a work that is
	// not in the cache yet would count as gone.
	if a.hubCache.WaitForCacheSync(ctx) && a.localCache.WaitForCacheSync(ctx) {
		a.watches.Start(ctx)
		if a.grants != nil {
			a.grants.Start(ctx)
		}
		go a.applied.run(ctx, workers)
		go a.works.run(ctx, workers)
		<-ctx.Done()
	}
	cancel()
	a.works.Stop()
	a.applied.Stop()
	a.watches.Stop()
	if a.grants != nil {
		a.grants.Stop()
	}
	return errors.Join(<-errs, <-errs)
}

// listen feeds the queues with what changes on either side.
func (a *agent) listen(ctx context.Context) error {
	works, err := a.hubCache.GetInformer(ctx, &workv1.ManifestWork{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch the works: %w", err)
	}
	if _, err := works.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { a.workChanged(nil, o) },
		UpdateFunc: func(was, is any) { a.workChanged(was, is) },
		DeleteFunc: func(o any) {
			if mw, ok := watches.ObjectOf[*workv1.ManifestWork](o); ok {
				a.works.add(mw.Name)
				a.applied.add(work.AppliedManifestWorkName(a.hubHash, mw.Name))
			}
		},
	}); err != nil {
		return err
	}
	applied, err := a.localCache.GetInformer(ctx, &workv1.AppliedManifestWork{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch the applied works: %w", err)
	}
	_, err = applied.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { a.appliedChanged(o) },
		UpdateFunc: func(was, is any) {
			// Only what others write is news: deletion, and the spec.
			before, after := was.(*workv1.AppliedManifestWork), is.(*workv1.AppliedManifestWork)
			if before.ResourceVersion == after.ResourceVersion || before.Generation != after.Generation || before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() {
				a.appliedChanged(is)
			}
		},
		DeleteFunc: func(o any) {
			if amw, ok := watches.ObjectOf[*workv1.AppliedManifestWork](o); ok && amw.Spec.HubHash == a.hubHash {
				a.works.add(amw.Spec.ManifestWorkName)
			}
		},
	})
	return err
}

// workChanged queues a work that is new, or whose spec, labels, finalizers or
// deletion changed. What this agent reports in the status is no news to it.
func (a *agent) workChanged(was, is any) {
	mw := is.(*workv1.ManifestWork)
	if was != nil {
		before := was.(*workv1.ManifestWork)
		same := before.ResourceVersion != mw.ResourceVersion && before.Generation == mw.Generation &&
			len(before.Finalizers) == len(mw.Finalizers) && maps.Equal(before.Labels, mw.Labels) &&
			before.DeletionTimestamp.IsZero() == mw.DeletionTimestamp.IsZero()
		switch {
		case !same:
			a.works.Forget(mw.Name)
		case !a.freshness.waits(mw.Name):
			return
		}
	}
	a.works.add(mw.Name)
	// An applied work that was about to be evicted is wanted again.
	if was == nil {
		a.applied.add(work.AppliedManifestWorkName(a.hubHash, mw.Name))
	}
}

// rightsChanged queues the works whose executors may have gained or lost rights.
func (a *agent) rightsChanged() {
	for _, name := range a.memory.DoubtRights() {
		a.works.add(name)
	}
}

func (a *agent) appliedChanged(o any) {
	if amw, ok := o.(*workv1.AppliedManifestWork); ok {
		a.applied.add(amw.Name)
	}
}

// workKey is where a work is on the hub.
func (a *agent) workKey(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: a.clusterName, Name: name}
}
