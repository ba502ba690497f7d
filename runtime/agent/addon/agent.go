package addon

import (
	"context"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/retry"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/loop"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/mirror"
	addonv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// agent looks after the add-ons of one hub.
type agent struct {
	Options
	hub, local client.WithWatch

	addOns source
	// requests are the certificate requests of all add-ons of the cluster.
	requests *mirror.Mirror[*certificatesv1.CertificateSigningRequest]
	places   *places
	journal  *journal
	news     loop.Signal
	// gone ends the run: the hub has no add-ons any more.
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
	a.requests = mirror.New(mirror.Options[*certificatesv1.CertificateSigningRequest]{
		Client: hub, List: &certificatesv1.CertificateSigningRequestList{}, Clock: o.Clock,
		Select: []client.ListOption{client.MatchingLabels{cluster.NameLabel: o.ClusterName}, client.HasLabels{cluster.AddOnNameLabel}},
		Report: func(err error) {
			if err != nil {
				o.Log.Debug("cannot watch the add-ons' certificate requests on the hub, trying again", "err", err)
			}
		},
		Backoff: ptr.To(retry.Quick(time.Minute)),
	})
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
	var running sync.WaitGroup
	defer a.places.running.Wait()
	defer running.Wait()
	defer a.gone()
	running.Go(func() { a.addOns.run(ctx) })
	running.Go(func() { a.requests.Run(ctx) })
	failing := retry.New(a.Clock, retry.Quick(time.Minute))
	for err := a.journal.load(ctx); err != nil; err = a.journal.load(ctx) {
		if ctx.Err() != nil {
			return
		}
		a.Log.Debug("cannot read in which namespaces there are credentials of add-ons, trying again", "err", err)
		failing.Wait(ctx, nil)
	}
	// Without a full view of the hub, what is not there yet would count as deleted.
	for _, filled := range []<-chan struct{}{a.addOns.filled(), a.requests.Filled()} {
		select {
		case <-filled:
		case <-ctx.Done():
			return
		}
	}
	a.addOns.notify(a.news)
	a.requests.Notify(a.news)
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
