package addon

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
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

// takeOver looks whether there is a Secret of the wanted name that the agent has not
// made. It returns it when it holds a good credential, after marking it. A Secret that
// must not be touched is an error, before anything is asked for.
func (a *agent) takeOver(ctx context.Context, w wanted, s *slot) (*corev1.Secret, error) {
	live, err := a.foreign(ctx, w)
	if live == nil || err != nil {
		return nil, err
	}
	have := w.inspect(live, a.Clock.Now(), s.chance)
	switch good := have.err == nil; {
	case good && a.isOurs(live, w.AddOn):
		return live, nil
	case !good || !a.Clock.Now().Before(have.renewAt):
		return nil, nil
	}
	if err := a.journal.enter(ctx, w.Namespace); err != nil {
		return nil, err
	}
	kept := map[string][]byte{}
	for key := range w.data(credential{}) {
		kept[key] = live.Data[key]
	}
	return a.update(ctx, w, live, kept)
}

// foreign is a Secret of the wanted name that the agent may take over, nil when there
// is none of the name, and an error when there is another.
func (a *agent) foreign(ctx context.Context, w wanted) (*corev1.Secret, error) {
	live := &corev1.Secret{}
	err := a.local.Get(ctx, client.ObjectKey{Namespace: w.Namespace, Name: w.Secret()}, live)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read the Secret %s/%s: %w", w.Namespace, w.Secret(), err)
	case a.isOurs(live, w.AddOn):
		return live, nil // the watch is behind
	}
	if err := w.mayTakeOver(live); err != nil {
		return nil, problem{error: err, condition: w.FailedBy(err, false), pause: foreignPause}
	}
	return live, nil
}

// store writes the credential that a slot holds. secret is the agent's own, or nil.
func (a *agent) store(ctx context.Context, w wanted, s *slot, secret *corev1.Secret) (*corev1.Secret, error) {
	if !a.places.get(w.Namespace).exists(w.Namespace) {
		return nil, a.hold(w, s)
	}
	if err := a.journal.enter(ctx, w.Namespace); err != nil {
		return nil, err
	}
	data := w.data(*s.held)
	if secret == nil {
		var err error
		if secret, err = a.foreign(ctx, w); err != nil {
			return nil, err
		}
	}
	if secret != nil {
		return a.update(ctx, w, secret, data)
	}
	created := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Secret()},
		Type:       corev1.SecretTypeOpaque, Data: data,
	}
	a.mark(w, created)
	if err := a.local.Create(ctx, created, client.FieldOwner(muster.AgentFieldManager)); err != nil {
		return nil, fmt.Errorf("create the Secret %s/%s: %w", w.Namespace, w.Secret(), err)
	}
	a.writtenSecrets.Wrote(created)
	a.Log.Info("stored a credential of an add-on", "addon", w.AddOn, "secret", w.Namespace+"/"+w.Secret())
	return created, nil
}

// hold keeps the credential for a namespace that is missing. What makes it is most
// often on its way, so it is reported to the hub after a while.
func (a *agent) hold(w wanted, s *slot) error {
	err := fmt.Errorf("the namespace %s does not exist in the managed cluster: "+
		"the credential is stored as soon as it does", w.Namespace)
	if left := s.heldSince.Add(holdPatience).Sub(a.Clock.Now()); left > 0 {
		return problem{error: err, pause: untilNews, after: left}
	}
	return problem{error: err, condition: w.FailedBy(err, false), pause: untilNews}
}

// update replaces the content of a Secret as it was read.
func (a *agent) update(
	ctx context.Context, w wanted, before *corev1.Secret, data map[string][]byte,
) (*corev1.Secret, error) {
	after := before.DeepCopy()
	after.Data = data
	a.mark(w, after)
	if err := a.local.Update(ctx, after, client.FieldOwner(muster.AgentFieldManager)); err != nil {
		return nil, fmt.Errorf("write the Secret %s/%s: %w", w.Namespace, w.Secret(), err)
	}
	a.writtenSecrets.Wrote(after)
	a.Log.Info("stored a credential of an add-on", "addon", w.AddOn, "secret", w.Namespace+"/"+w.Secret())
	return after, nil
}

// mark says on a Secret whose it is, and what the credential was asked for with.
func (a *agent) mark(w wanted, secret *corev1.Secret) {
	secret.Labels, secret.Annotations = maps.Clone(secret.Labels), maps.Clone(secret.Annotations)
	metav1.SetMetaDataLabel(&secret.ObjectMeta, muster.AddOnAgentLabel, a.Namespace)
	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, muster.AddOnAnnotation, w.AddOn)
	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, muster.AddOnRegistrationAnnotation, w.Identity())
}

// removeStale deletes the Secrets that the agent has made for an add-on and that none of
// its registrations wants.
func (a *agent) removeStale(ctx context.Context, addOn string, wanted []registration.Registration) error {
	for _, secret := range a.places.secrets() {
		isWanted := slices.ContainsFunc(wanted, func(r registration.Registration) bool {
			return r.Namespace == secret.Namespace && r.Secret() == secret.Name
		})
		if isWanted || secret.Annotations[muster.AddOnAnnotation] != addOn {
			continue
		}
		a.writtenSecrets.Forget(client.ObjectKeyFromObject(secret))
		if err := a.remove(ctx, secret); err != nil {
			return fmt.Errorf("delete the Secret %s/%s of an add-on: %w", secret.Namespace, secret.Name, err)
		}
	}
	return nil
}

func (a *agent) remove(ctx context.Context, secret *corev1.Secret) error {
	seen := client.Preconditions{UID: ptr.To(secret.UID), ResourceVersion: ptr.To(secret.ResourceVersion)}
	err := a.local.Delete(ctx, secret.DeepCopy(), seen)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case apierrors.IsConflict(err):
		return nil // another one by now, which the watch is about to show
	case err != nil:
		return err
	}
	a.Log.Info("removed a credential of an add-on that is not wanted any more",
		"addon", secret.Annotations[muster.AddOnAnnotation], "secret", secret.Namespace+"/"+secret.Name)
	return nil
}

// journal says in which namespaces the agent may have made Secrets. It is written
// before the first Secret of a namespace, so that an agent that starts finds those of
// add-ons that are gone by then, without the right to list all Secrets of the cluster.
type journal struct {
	local     client.Client
	namespace string

	// storing is held for reading from when a namespace is entered until its Secret is
	// stored.
	storing sync.RWMutex

	mu    sync.Mutex
	known sets.Set[string]
}

// load reads what an earlier agent has written.
func (j *journal) load(ctx context.Context) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	secret := &corev1.Secret{}
	err := j.local.Get(ctx, j.key(), secret)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	j.known = namesIn(secret)
	return nil
}

// namespaces are those that the journal has.
func (j *journal) namespaces() sets.Set[string] {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.known.Clone()
}

// enter writes a namespace down.
func (j *journal) enter(ctx context.Context, name string) error {
	return j.change(ctx, name, true)
}

// leave strikes a namespace out that is empty, and into which nothing is being stored.
func (j *journal) leave(ctx context.Context, name string, isEmpty func(context.Context, string) (bool, error)) error {
	j.storing.Lock()
	defer j.storing.Unlock()
	if empty, err := isEmpty(ctx, name); err != nil || !empty {
		return err
	}
	return j.change(ctx, name, false)
}

func (j *journal) change(ctx context.Context, name string, has bool) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.known.Has(name) == has {
		return nil
	}
	err := retry.OnError(retry.DefaultBackoff, again, func() error { return j.write(ctx, name, has) })
	if err != nil {
		return fmt.Errorf("write the Secret %s, which lists the namespaces with credentials of add-ons: %w",
			j.key(), err)
	}
	return nil
}

// again reports that another agent has written at the same time.
func again(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }

// write is called with j.mu held.
func (j *journal) write(ctx context.Context, name string, has bool) error {
	secret := &corev1.Secret{}
	err := j.local.Get(ctx, j.key(), secret)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	names := namesIn(secret)
	if has {
		names.Insert(name)
	} else {
		names.Delete(name)
	}
	content := []byte(strings.Join(slices.Sorted(slices.Values(names.UnsortedList())), "\n"))
	if apierrors.IsNotFound(err) {
		err = j.local.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: j.namespace, Name: muster.AddOnNamespacesSecret},
			Data:       map[string][]byte{muster.AddOnNamespacesKey: content},
		}, client.FieldOwner(muster.AgentFieldManager))
	} else {
		secret.Data = map[string][]byte{muster.AddOnNamespacesKey: content}
		err = j.local.Update(ctx, secret, client.FieldOwner(muster.AgentFieldManager))
	}
	if err == nil {
		j.known = names
	}
	return err
}

func (j *journal) key() client.ObjectKey {
	return client.ObjectKey{Namespace: j.namespace, Name: muster.AddOnNamespacesSecret}
}

func namesIn(secret *corev1.Secret) sets.Set[string] {
	names := sets.New[string]()
	for name := range strings.FieldsSeq(string(secret.Data[muster.AddOnNamespacesKey])) {
		if len(validation.IsDNS1123Label(name)) == 0 {
			names.Insert(name)
		}
	}
	return names
}
