package addon

import (
	"context"
	"fmt"
	"strings"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/engine"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
)

// checkNamespace refuses namespaces that the hub must not have the agent write Secrets
// into, whatever the agent's rights are: those of Kubernetes itself, and the agent's
// own, where a Secret of the right name would be another way to the hub.
func (o *Options) checkNamespace(namespace string) error {
	switch {
	case namespace == o.Namespace:
		return fmt.Errorf("the namespace %s is the cluster's own agent's, and no Secret of an add-on is written "+
			"there: give the add-on another install namespace", namespace)
	case strings.HasPrefix(namespace, "kube-"):
		return fmt.Errorf("the namespace %s is Kubernetes' own, and no Secret of an add-on is written there: "+
			"give the add-on another install namespace", namespace)
	}
	if problems := validation.IsDNS1123Label(namespace); len(problems) > 0 {
		return fmt.Errorf("%q is no name of a namespace: give the add-on another install namespace", namespace)
	}
	return nil
}

// place is a namespace of the managed cluster as far as add-ons are concerned: it has a
// watch of the Leases in it, of the Secrets that the agent has made, and of itself,
// however many add-ons are in it.
type place struct {
	namespace *engine.Watch[*corev1.Namespace]
	leases    *engine.Watch[*coordinationv1.Lease]
	// secrets are those that the agent has made; nil where it makes none.
	secrets *engine.Watch[*corev1.Secret]

	end context.CancelFunc
}

// exists reports whether the namespace is there and stays, as far as is known.
func (p *place) exists(name string) bool {
	if p == nil {
		return false // not in use any more
	}
	n, ok := p.namespace.Get("", name)
	return ok && n.DeletionTimestamp.IsZero()
}

// places are the namespaces in use. It is safe for concurrent use.
type places struct {
	*agent
	running sync.WaitGroup

	mu  sync.Mutex
	all map[string]*place
}

// get is a namespace that is in use; nil before it is watched.
func (p *places) get(name string) *place {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all[name]
}

// secrets are those that the agent has made and the watches show, also before these are
// complete: each is there, and no other event may come for one whose add-on is gone.
func (p *places) secrets() []*corev1.Secret {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []*corev1.Secret
	for _, at := range p.all {
		if at.secrets != nil {
			all = append(all, at.secrets.Objects()...)
		}
	}
	return all
}

// follow starts and ends watches, so that those of the given namespaces run.
func (p *places) follow(names sets.Set[string]) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, at := range p.all {
		if !names.Has(name) {
			at.end()
			delete(p.all, name)
		}
	}
	for name := range names {
		if p.all[name] != nil || len(validation.IsDNS1123Label(name)) > 0 {
			continue
		}
		at, err := p.open(name)
		if err != nil {
			return fmt.Errorf("watch the namespace %s of the managed cluster: %w", name, err)
		}
		p.all[name] = at
	}
	return nil
}

func (p *places) open(name string) (*place, error) {
	at := &place{}
	var ctx context.Context
	ctx, at.end = context.WithCancel(p.ctx)
	var err error
	at.namespace, err = engine.StartWatch(ctx, &p.running, engine.WatchOptions[*corev1.Namespace]{
		Client: p.local, Object: &corev1.Namespace{}, List: &corev1.NamespaceList{},
		Select: []client.ListOption{client.MatchingFields{"metadata.name": name}},
		Changed: func(before, now *corev1.Namespace) {
			if before == nil || before.Status.Phase != now.Status.Phase {
				p.wakeAll(name)
			}
		},
		Report: p.reporter(name),
	})
	if err != nil {
		return nil, err
	}
	at.leases, err = engine.StartWatch(ctx, &p.running, engine.WatchOptions[*coordinationv1.Lease]{
		Client: p.local, Object: &coordinationv1.Lease{}, List: &coordinationv1.LeaseList{},
		Select: []client.ListOption{client.InNamespace(name)},
		Changed: func(before, now *coordinationv1.Lease) {
			if p.isKnown(now.Name) && !p.isSameHealth(before, now) {
				p.queue.Add(now.Name)
			}
		},
		Report: p.reporter(name),
	})
	if err != nil || p.checkNamespace(name) != nil {
		return at, err
	}
	at.secrets, err = engine.StartWatch(ctx, &p.running, engine.WatchOptions[*corev1.Secret]{
		Client: p.local, Object: &corev1.Secret{}, List: &corev1.SecretList{},
		Select: p.ownSecrets(name),
		Changed: func(_, now *corev1.Secret) {
			p.queue.Add(now.Annotations[muster.AddOnAnnotation]) // which may be gone
			p.wakeAll(name)
			p.queue.Add(engine.General)
		},
		Report: p.reporter(name),
	})
	return at, err
}

// reporter takes the reports of a watch in a namespace: add-ons report rights that are
// lacking, and go on when all is known.
func (p *places) reporter(name string) func(error) {
	return func(err error) {
		if err != nil {
			p.Log.Debug("cannot watch what add-ons have in the managed cluster, trying again", "err", err)
		}
		if err == nil || apierrors.IsForbidden(err) {
			p.wakeAll(name)
			p.queue.Add(engine.General)
		}
	}
}

// reconcileNamespaces watches the namespaces in which add-ons are or have been, and
// strikes those out of the journal in which nothing is left of them.
func (a *agent) reconcileNamespaces(ctx context.Context) (reconcile.Result, error) {
	all, err := a.addOns.list(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	inUse := sets.New[string]()
	for _, m := range all {
		inUse.Insert(registration.InstallNamespace(m))
	}
	for name := range a.journal.namespaces().Difference(inUse) {
		at := a.places.get(name)
		if at == nil || at.secrets == nil || !at.secrets.IsComplete() || len(at.secrets.Objects()) > 0 {
			continue
		}
		if err := a.journal.leave(ctx, name, a.isEmpty); err != nil {
			return reconcile.Result{}, err
		}
	}
	return reconcile.Result{}, a.places.follow(inUse.Union(a.journal.namespaces()))
}

// isEmpty reports whether a namespace has no Secret that the agent has made.
func (a *agent) isEmpty(ctx context.Context, namespace string) (bool, error) {
	list := &corev1.SecretList{}
	err := a.local.List(ctx, list, append(a.ownSecrets(namespace), client.Limit(1))...)
	return len(list.Items) == 0, err
}

// ownSecrets selects the Secrets of a namespace that the agent has made.
func (a *agent) ownSecrets(namespace string) []client.ListOption {
	return []client.ListOption{
		client.InNamespace(namespace), client.MatchingLabels{muster.AddOnAgentLabel: a.Namespace},
	}
}
