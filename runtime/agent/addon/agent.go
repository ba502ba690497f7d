package addon

import (
	"context"
	"fmt"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/engine"
)

// agent looks after the add-ons of one hub.
type agent struct {
	Options
	engine *engine.Engine
	// hub and local read without a cache.
	hub, local client.WithWatch

	addOns   addOns
	requests *requests
	places   *places
	journal  *journal

	queue *engine.Queue
	// writtenAddOns and writtenSecrets are what the copies may not show yet.
	writtenAddOns, writtenSecrets *engine.Written

	// ctx is that of the run, which gone ends when the hub has no add-ons any more.
	ctx  context.Context
	gone context.CancelFunc

	mu     sync.Mutex
	states map[string]*state // what is remembered of add-ons, by their names
}

func newAgent(o Options, hub, local client.WithWatch, version string) (*agent, error) {
	a := &agent{
		Options: o, hub: hub, local: local,
		journal:       &journal{local: local, namespace: o.Namespace},
		queue:         engine.NewQueue(o.ClusterName, engine.Retry),
		writtenAddOns: engine.NewWritten(o.Clock), writtenSecrets: engine.NewWritten(o.Clock),
		states: map[string]*state{},
	}
	a.places = &places{agent: a, all: map[string]*place{}}
	a.requests = newRequests(a)
	var err error
	a.engine, err = engine.New(engine.Options{
		Hub: o.Hub, ManagedCluster: o.ManagedCluster, UserAgent: userAgent, Log: o.Log, Clock: o.Clock,
		HubCache: cache.Options{
			DefaultFieldSelector:     engine.InNamespace(o.ClusterName),
			DefaultWatchErrorHandler: a.watchFailed,
		},
	})
	if err != nil {
		return nil, err
	}
	a.addOns = addOns{hub: hub, cache: a.engine.GetCache(), namespace: o.ClusterName, version: version}
	changed := func(_ context.Context, o client.Object) []reconcile.Request {
		return []reconcile.Request{a.queue.Request(o.GetName()), a.queue.Request(engine.General)}
	}
	return a, a.engine.AddController(engine.Controller{
		Name: "addon", Queue: a.queue, Reconcile: a.reconcile, Workers: engine.Workers, Timeout: engine.Timeout,
		Sources: []source.Source{
			source.Kind(a.engine.GetCache(), a.addOns.object(), handler.EnqueueRequestsFromMapFunc(changed)),
		},
	})
}

// run looks after the add-ons until ctx ends, or the hub has none any more.
func (a *agent) run(ctx context.Context) error {
	a.ctx, a.gone = context.WithCancel(ctx)
	defer a.places.running.Wait()
	defer a.gone()
	if err := a.journal.load(a.ctx); err != nil {
		return fmt.Errorf("read in which namespaces there are credentials of add-ons: %w", err)
	}
	a.queue.Add(engine.General)
	return a.engine.Start(a.ctx)
}

// watchFailed takes the failures of the watch of add-ons.
func (a *agent) watchFailed(_ context.Context, _ *toolscache.Reflector, err error) {
	a.Log.Debug("cannot watch the cluster's add-ons on the hub, trying again", "err", err)
	if apierrors.IsNotFound(err) {
		a.gone()
	}
}

// wakeAll queues the add-ons of a namespace of the managed cluster.
func (a *agent) wakeAll(namespace string) {
	all, err := a.addOns.list(a.ctx)
	if err != nil {
		a.Log.Debug("cannot list the add-ons", "err", err)
	}
	for _, m := range all {
		if registration.InstallNamespace(m) == namespace {
			a.queue.Add(m.Name)
		}
	}
}

// isSameHealth reports whether another state of a Lease means the same for the add-on
// of its name: it was renewed in time, and the end of that time is waited for.
func (a *agent) isSameHealth(before, now *coordinationv1.Lease) bool {
	at := a.Clock.Now()
	return before != nil && isFresh(before, at) && isFresh(now, at)
}
