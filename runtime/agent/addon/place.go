package addon

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/loop"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/mirror"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
)

// checkNamespace refuses namespaces that the hub must not have the agent write Secrets
// into, whatever the agent's rights are: those of Kubernetes itself, and the agent's
// own, where a Secret of the right name would be another way to the hub.
func (o *Options) checkNamespace(namespace string) error {
	switch {
	case namespace == o.Namespace:
		return fmt.Errorf("the namespace %s is the cluster's own agent's, and no Secret of an add-on is written there: "+
			"give the add-on another install namespace", namespace)
	case strings.HasPrefix(namespace, "kube-"):
		return fmt.Errorf("the namespace %s is Kubernetes' own, and no Secret of an add-on is written there: "+
			"give the add-on another install namespace", namespace)
	}
	if problems := validation.IsDNS1123Label(namespace); len(problems) > 0 {
		return fmt.Errorf("%q is no name of a namespace: give the add-on another install namespace", namespace)
	}
	return nil
}

// place is a namespace of the managed cluster as far as add-ons are concerned.
type place struct {
	namespace *mirror.Mirror[*corev1.Namespace]
	leases    *mirror.Mirror[*coordinationv1.Lease]
	// secrets are those that the agent has made; nil where it makes none.
	secrets *mirror.Mirror[*corev1.Secret]
	// namespaceErr, leasesErr and secretsErr are why these mirrors don't follow the cluster, and
	// hold nil while they do.
	namespaceErr, leasesErr, secretsErr failure

	end context.CancelFunc
}

// failure is an error that is there or not. It is safe for concurrent use.
type failure struct{ err atomic.Pointer[error] }

func (f *failure) set(err error) {
	if err == nil {
		f.err.Store(nil)
		return
	}
	f.err.Store(&err)
}

func (f *failure) get() error {
	if err := f.err.Load(); err != nil {
		return *err
	}
	return nil
}

// exists tells whether the namespace is there and stays, as far as is known.
func (p *place) exists(name string) bool {
	n, ok := p.namespace.Get(name)
	return ok && n.DeletionTimestamp.IsZero()
}

// isFilled tells whether a mirror has shown the cluster's objects.
func isFilled[T client.Object](m *mirror.Mirror[T]) bool {
	select {
	case <-m.Filled():
		return true
	default:
		return false
	}
}

// places are the namespaces in use: each has a watch of the Leases in it, of the
// Secrets that the agent has made, and of itself, however many add-ons are in it.
// follow must not be called while another method is.
type places struct {
	*Options
	local client.WithWatch
	news  loop.Signal
	// same tells that the renewal of a lease changes nothing.
	same func(old, new *coordinationv1.Lease) bool

	all     map[string]*place
	running sync.WaitGroup
}

// follow starts and ends watches, so that those of the given namespaces run. All end
// with ctx.
func (p *places) follow(ctx context.Context, names sets.Set[string]) {
	for name, at := range p.all {
		if !names.Has(name) {
			at.end()
			delete(p.all, name)
		}
	}
	for name := range names {
		if p.all[name] == nil {
			p.all[name] = p.open(ctx, name)
		}
	}
}

func (p *places) open(ctx context.Context, name string) *place {
	at := &place{}
	ctx, at.end = context.WithCancel(ctx)
	at.namespace = watched(ctx, p, mirror.Options[*corev1.Namespace]{
		List: &corev1.NamespaceList{}, Select: []client.ListOption{client.MatchingFields{"metadata.name": name}},
		Same: func(old, new *corev1.Namespace) bool { return old.Status.Phase == new.Status.Phase },
	}, &at.namespaceErr)
	at.leases = watched(ctx, p, mirror.Options[*coordinationv1.Lease]{
		List: &coordinationv1.LeaseList{}, Select: []client.ListOption{client.InNamespace(name)}, Same: p.same,
	}, &at.leasesErr)
	if p.checkNamespace(name) == nil {
		at.secrets = watched(ctx, p, mirror.Options[*corev1.Secret]{
			List:   &corev1.SecretList{},
			Select: []client.ListOption{client.InNamespace(name), client.MatchingLabels{muster.AddOnAgentLabel: p.Namespace}},
		}, &at.secretsErr)
	}
	return at
}

// watched runs a mirror of the managed cluster until ctx ends.
func watched[T client.Object](ctx context.Context, p *places, o mirror.Options[T], f *failure) *mirror.Mirror[T] {
	o.Client, o.Clock = p.local, p.Clock
	o.Report = func(err error) {
		f.set(err)
		if apierrors.IsForbidden(err) {
			p.news.Set() // add-ons say so
		}
		if err != nil {
			p.Log.Debug("cannot watch what add-ons have in the managed cluster, trying again", "err", err)
		}
	}
	m := mirror.New(o)
	m.Notify(p.news)
	p.running.Go(func() { m.Run(ctx) })
	return m
}
