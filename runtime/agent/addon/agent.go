package addon

import (
	"context"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/retry"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/loop"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/mirror"
	addonv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1beta1"
)

// agent looks after the add-ons of one hub.
type agent struct {
	Options
	hub, local client.WithWatch

	addOns   source
	requests *requests
	places   *places
	journal  *journal
	news     loop.Signal
	// ctx is that of the run, which gone ends when the hub has no add-ons any more.
	ctx  context.Context
	gone context.CancelFunc

	// writtenAddOns and writtenSecrets are the writes of this agent that the mirrors
	// may not show yet.
	writtenAddOns  *mirror.Overlay[*addonv1beta1.ManagedClusterAddOn]
	writtenSecrets *mirror.Overlay[*corev1.Secret]
	// states are what is remembered of add-ons, by their names.
	states map[string]*state
	// names are those of the add-ons, for the watches of their Leases.
	names sync.Map
}

func newAgent(o Options, hub, local client.WithWatch, version string) *agent {
	a := &agent{
		Options: o, hub: hub, local: local, news: loop.NewSignal(),
		journal:        &journal{local: local, namespace: o.Namespace},
		writtenAddOns:  mirror.NewOverlay[*addonv1beta1.ManagedClusterAddOn](),
		writtenSecrets: mirror.NewOverlay[*corev1.Secret](),
		states:         map[string]*state{},
	}
	a.places = &places{Options: &a.Options, local: local, news: a.news, all: map[string]*place{}, same: a.sameHealth}
	a.addOns = newSource(version, o.ClusterName, hub, o.Clock, a.hubAnswers)
	a.requests = &requests{hub: hub, clusterName: o.ClusterName, clock: o.Clock, log: o.Log, news: a.news}
	return a
}

// hubAnswers takes the reports of the mirror of the add-ons.
func (a *agent) hubAnswers(err error) {
	switch {
	case apierrors.IsNotFound(err):
		a.gone()
	case err != nil:
		a.Log.Debug("cannot watch the cluster's add-ons on the hub, trying again", "err", err)
	}
}

// run looks after the add-ons until ctx ends, or the hub has none any more.
func (a *agent) run(ctx context.Context) {
	ctx, a.gone = context.WithCancel(ctx)
	a.ctx = ctx
	var running sync.WaitGroup
	defer a.places.running.Wait()
	defer a.requests.running.Wait()
	defer running.Wait()
	defer a.gone()
	running.Go(func() { a.addOns.run(ctx) })
	failing := retry.New(a.Clock, retry.Quick(time.Minute))
	for err := a.journal.load(ctx); err != nil; err = a.journal.load(ctx) {
		if ctx.Err() != nil {
			return
		}
		a.Log.Debug("cannot read in which namespaces there are credentials of add-ons, trying again", "err", err)
		failing.Wait(ctx, nil)
	}
	// Without a full view of the hub, what is not there yet would count as deleted.
	select {
	case <-a.addOns.filled():
	case <-ctx.Done():
		return
	}
	a.addOns.notify(a.news)
	loop.Run(ctx, a.Clock, a.news, 0, a.pass)
}

// sameHealth tells that another state of a Lease means the same for the add-on of its
// name: it was renewed in time, and the end of that time is waited for.
func (a *agent) sameHealth(old, new *coordinationv1.Lease) bool {
	if _, isAddOn := a.names.Load(new.Name); !isAddOn {
		return true
	}
	now := a.Clock.Now()
	return isFresh(old, now) && isFresh(new, now)
}
