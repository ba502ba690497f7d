// Package addon gets the agents of add-ons their credentials, and reports to the hub how
// the add-ons are.
//
// For each registration in the status of a ManagedClusterAddOn of the cluster it gets a
// client certificate or a token from the hub and keeps it in a Secret of the managed
// cluster, under the names that upstream's agents use. It renews it in good time and
// when something about it changes, and removes it when it is no longer wanted. For an
// add-on whose health shows in a Lease it watches that Lease.
//
// A reconcile goes in one direction: the add-on and what the managed cluster has of it
// are read, what is missing is asked for or written, and the outcome is reported with
// one write of the add-on's status. What is remembered of an add-on is the key of a
// certificate request that is under way, and a credential whose namespace does not
// exist yet. Everything else is read from both sides, so that an agent can be killed at
// any write.
//
// The hub is not trusted with the Secrets of the managed cluster: place.go says where
// none is written, and which are overwritten and deleted.
package addon

import (
	"context"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/engine"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/identity"
	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	addonv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
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
	a.addOns = addOns{
		hub: hub, cache: a.engine.GetCache(), server: a.engine.GetAPIReader(), written: a.writtenAddOns,
		namespace: o.ClusterName, version: version,
	}
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

// userAgent is what the agent calls itself in requests.
const userAgent = "muster-addon-agent"

// Options say whose add-ons are looked after where.
type Options struct {
	engine.Part
	// Endpoint is where the agents of add-ons find the hub.
	Endpoint identity.Endpoint
	// Driver is registration.DriverCSR, the default, or registration.DriverToken.
	Driver string
	// TokenExpiration is the lifetime to ask for tokens;
	// registration.DefaultTokenExpiration seconds by default.
	TokenExpiration time.Duration
	// Announced is whether the ManagedCluster says that there are add-ons, by the annotation
	// muster.AddOnsAnnotation, and Changed has an element when that may be another. nil
	// says that nobody knows: then add-ons are always watched.
	Announced func() bool
	Changed   <-chan struct{}

	// void is the time until which the hub's certificates are of no use, as they were
	// issued for the agent that this one has replaced.
	void time.Time
}

// Run looks after the add-ons until ctx ends, and returns nil then. It returns an
// error only when it cannot start.
func Run(ctx context.Context, o Options) error {
	if o.Driver == "" {
		o.Driver = registration.DriverCSR
	}
	if o.TokenExpiration == 0 {
		o.TokenExpiration = registration.DefaultTokenExpiration * time.Second
	}
	return o.Part.Run(ctx, "add-ons", userAgent, o.look)
}

// look asks the hub for add-ons, and returns what looks after them; nil when it has
// no such kind. Where the hub announces add-ons and there are none, that waits for the
// first.
func (o Options) look(ctx context.Context, hub, local client.WithWatch) (func(context.Context) error, error) {
	version, has, err := o.versionOf(ctx, hub)
	if err != nil || version == "" {
		return nil, err
	}
	if o.void, err = o.takeOver(ctx, hub); err != nil {
		return nil, err
	}
	wait := false
	if !has && o.Announced != nil {
		if wait, err = o.canWait(ctx, hub, local); err != nil {
			return nil, err
		}
	}
	return func(ctx context.Context) error {
		if wait && !o.untilAnnounced(ctx) {
			return nil
		}
		a, err := newAgent(o, hub, local, version)
		if err != nil {
			return err
		}
		return a.run(ctx)
	}, nil
}

// canWait reports whether an agent without add-ons has nothing to do until the hub
// announces one.
func (o Options) canWait(ctx context.Context, hub, local client.Client) (bool, error) {
	info, err := engine.HubInfo(ctx, hub)
	if err != nil || !hubinfo.Has(info, hubinfo.AddOnAnnouncement) {
		return false, err
	}
	left := &journal{local: local, namespace: o.Namespace}
	err = left.load(ctx)
	// There may be credentials of add-ons that are gone.
	return err == nil && left.namespaces().Len() == 0, err
}

// untilAnnounced waits for the first add-on. It returns false when it is time to look for
// one, and when ctx ends.
func (o Options) untilAnnounced(ctx context.Context) bool {
	enough := o.Clock.NewTimer(engine.LookPeriod)
	defer enough.Stop()
	for !o.Announced() {
		select {
		case <-ctx.Done():
			return false
		case <-enough.C():
			return false
		case <-o.Changed:
		}
	}
	return true
}

// takeOver is the time until which certificates are void, by the cluster's annotations on
// the hub. It is before this agent's own certificate, so it needs no watch.
func (o Options) takeOver(ctx context.Context, hub client.Client) (time.Time, error) {
	mc := &clusterv1.ManagedCluster{}
	if err := hub.Get(ctx, client.ObjectKey{Name: o.ClusterName}, mc); client.IgnoreNotFound(err) != nil {
		return time.Time{}, err
	}
	return cluster.VoidUntil(mc.Annotations), nil
}

// versionOf is the newest version of ManagedClusterAddOns that the hub serves and the
// agent knows: v1beta1, or v1alpha1 with older hubs; "" when it has none. has is whether
// the cluster has add-ons.
func (o Options) versionOf(ctx context.Context, hub client.Client) (version string, has bool, err error) {
	for _, l := range []struct {
		version string
		list    client.ObjectList
	}{
		{addonv1beta1.GroupVersion.Version, &addonv1beta1.ManagedClusterAddOnList{}},
		{addonv1alpha1.GroupVersion.Version, &addonv1alpha1.ManagedClusterAddOnList{}},
	} {
		err := hub.List(ctx, l.list, client.InNamespace(o.ClusterName), client.Limit(1))
		if !apierrors.IsNotFound(err) {
			return l.version, meta.LenList(l.list) > 0, err
		}
	}
	return "", false, nil
}
