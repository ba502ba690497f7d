package addon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/internal/retry"
	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/engine"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/conversion"
	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	addonv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/limits"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// For driverPause the driver is not written once more, so that agent and hub don't take
// turns, and for unknownPause after a hub has not kept it.
const (
	driverPause  = 10 * time.Second
	unknownPause = time.Hour
)

// conflictPause is when to look again at an add-on that had changed: the cache is about
// to show why.
const conflictPause = time.Second

// state is what the agent remembers of an add-on.
type state struct {
	// slots are by the names of their Secrets.
	slots map[string]*slot
	// health is what was last reported by the Lease.
	health health
	// driven is until when the driver is not written.
	driven time.Time
	// invalid keeps registrations that cannot be carried out from being logged again.
	invalid retry.Once
}

// task is one add-on that is looked after.
type task struct {
	// seen is the add-on as the hub has it, and want as it is to be.
	seen, want    *addonv1beta1.ManagedClusterAddOn
	state         *state
	registrations []registration.Registration
}

// reconcile takes an add-on as far as it goes now, and removes what is left of one that
// is gone.
func (a *agent) reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	if r.Name == engine.General {
		return a.reconcileNamespaces(ctx)
	}
	seen, err := a.addOns.get(ctx, r.Name)
	switch {
	case errors.Is(err, engine.ErrOutdated):
		return reconcile.Result{RequeueAfter: engine.CopyTimeout}, nil
	case err != nil:
		return reconcile.Result{}, err
	case seen == nil:
		a.forget(r.Name)
		return reconcile.Result{}, a.removeStale(ctx, r.Name, nil)
	}
	t := a.task(seen)
	after, err := a.advance(ctx, t)
	if !t.needsRequests() {
		a.requests.release(r.Name)
	}
	if err != nil {
		t.state.health = health{} // which was not reported
	}
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: conflictPause}, nil
	}
	return reconcile.Result{RequeueAfter: after}, err
}

// advance does what there is to do for an add-on now. It returns after how long to look
// again; 0 waits for news.
func (a *agent) advance(ctx context.Context, t task) (time.Duration, error) {
	driver, err := a.writeDriver(ctx, &t)
	if err != nil {
		return 0, err
	}
	after := engine.Soonest(driver, a.checkHealth(t), a.register(ctx, t))
	if err := a.report(ctx, t); err != nil || isUnread(t.want) {
		return after, err
	}
	return after, a.removeStale(ctx, t.want.Name, t.registrations)
}

// task puts together what is known of an add-on.
func (a *agent) task(seen *addonv1beta1.ManagedClusterAddOn) task {
	t := task{seen: seen, want: seen.DeepCopy(), state: a.state(seen.Name)}
	registration.SetDriver(t.want, a.Driver)
	var err error
	if t.registrations, err = registration.Of(t.want); err == nil {
		t.state.invalid.Clear()
	} else if t.state.invalid.Changed(err.Error()) {
		a.Log.Warn("a registration of the add-on cannot be carried out", "addon", seen.Name, "err", err)
	}
	for secret := range t.state.slots {
		isWanted := func(r registration.Registration) bool { return r.Secret() == secret }
		if !slices.ContainsFunc(t.registrations, isWanted) {
			delete(t.state.slots, secret)
		}
	}
	return t
}

// needsRequests reports whether the hub's certificate requests have to be watched.
func (t task) needsRequests() bool {
	for _, s := range t.state.slots {
		if s.needsRequests {
			return true
		}
	}
	return false
}

// state is what is remembered of an add-on.
func (a *agent) state(name string) *state {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.states[name] == nil {
		a.states[name] = &state{slots: map[string]*slot{}}
	}
	return a.states[name]
}

// isKnown reports whether the hub has an add-on of a name.
func (a *agent) isKnown(name string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.states[name] != nil
}

// forget drops what is remembered of an add-on that is gone.
func (a *agent) forget(name string) {
	a.mu.Lock()
	delete(a.states, name)
	a.mu.Unlock()
	a.requests.release(name)
	a.writtenAddOns.Forget(client.ObjectKey{Namespace: a.ClusterName, Name: name})
}

// isUnread reports that the hub has not looked at an add-on yet, as after it was
// restored from a backup, which has no status: it has no say in what is left over.
func isUnread(m *addonv1beta1.ManagedClusterAddOn) bool {
	return len(m.Status.Registrations) == 0 &&
		meta.FindStatusCondition(m.Status.Conditions, registration.ConditionRegistrationApplied) == nil
}

// writeDriver writes the driver before anything else: the hub prepares for it. A hub
// whose add-ons have no driver, or who writes another one, is asked again only after a
// pause, and the agent uses its own driver in any case.
func (a *agent) writeDriver(ctx context.Context, t *task) (time.Duration, error) {
	if !registration.SetDriver(t.seen.DeepCopy(), a.Driver) {
		return 0, nil
	}
	now := a.Clock.Now()
	if left := t.state.driven.Sub(now); left > 0 {
		return left, nil
	}
	t.state.driven = now.Add(driverPause)
	wrote, err := a.write(ctx, t.seen, t.want)
	if apierrors.IsInvalid(err) {
		// Other registrations are not what the definition asks for. The hub sees to them.
		a.Log.Warn("the hub does not take the driver of the add-on", "addon", t.seen.Name, "err", err)
		t.state.driven = now.Add(unknownPause)
		return 0, nil
	}
	if err != nil || wrote == nil {
		t.state.driven = time.Time{}
		return 0, err
	}
	t.seen, t.want = wrote, wrote.DeepCopy()
	if registration.SetDriver(t.want, a.Driver) {
		t.state.driven = now.Add(unknownPause)
	}
	return 0, nil
}

// addOns are those of the cluster on the hub, in v1beta1, whatever version the hub
// serves.
type addOns struct {
	hub       client.Client
	cache     client.Reader
	server    client.Reader // past the cache
	written   *engine.Written
	namespace string
	version   string
}

func (s addOns) isOld() bool { return s.version == addonv1alpha1.GroupVersion.Version }

// object is an empty one of the version that the hub serves.
func (s addOns) object() client.Object {
	if s.isOld() {
		return &addonv1alpha1.ManagedClusterAddOn{}
	}
	return &addonv1beta1.ManagedClusterAddOn{}
}

// get is an add-on as it is after what was written; nil when the hub has none of the name.
func (s addOns) get(ctx context.Context, name string) (*addonv1beta1.ManagedClusterAddOn, error) {
	o := s.object()
	err := s.written.Read(ctx, s.cache, s.server, client.ObjectKey{Namespace: s.namespace, Name: name}, o)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return newer(o), nil
}

// list are all add-ons as the cache has them.
func (s addOns) list(ctx context.Context) ([]*addonv1beta1.ManagedClusterAddOn, error) {
	var all []*addonv1beta1.ManagedClusterAddOn
	if s.isOld() {
		list := &addonv1alpha1.ManagedClusterAddOnList{}
		err := s.cache.List(ctx, list)
		for i := range list.Items {
			all = append(all, newer(&list.Items[i]))
		}
		return all, err
	}
	list := &addonv1beta1.ManagedClusterAddOnList{}
	err := s.cache.List(ctx, list)
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}
	return all, err
}

func newer(o client.Object) *addonv1beta1.ManagedClusterAddOn {
	if old, ok := o.(*addonv1alpha1.ManagedClusterAddOn); ok {
		return conversion.ManagedClusterAddOnToV1beta1(old)
	}
	return o.(*addonv1beta1.ManagedClusterAddOn)
}

// report writes a status, and returns the object that the hub has then; nil when it
// has none any more. It fails when before is not what the hub has.
func (s addOns) report(
	ctx context.Context, before, after *addonv1beta1.ManagedClusterAddOn,
) (*addonv1beta1.ManagedClusterAddOn, error) {
	now := client.Object(before.DeepCopy())
	change := func() bool {
		after.DeepCopyInto(now.(*addonv1beta1.ManagedClusterAddOn))
		return true
	}
	if s.isOld() {
		now = conversion.ManagedClusterAddOnToV1alpha1(before.DeepCopy())
		change = func() bool {
			to := conversion.ManagedClusterAddOnToV1alpha1(after.DeepCopy())
			to.DeepCopyInto(now.(*addonv1alpha1.ManagedClusterAddOn))
			return true
		}
	}
	written, err := patch.Status(ctx, s.hub, now, change)
	if !written || err != nil {
		return nil, err
	}
	return newer(now), nil
}

// register obtains what the add-on's registrations want, and sets the conditions that
// report it: where several share one, a failure counts more than a success, and the
// latest success more than others.
func (a *agent) register(ctx context.Context, t task) time.Duration {
	var waits []time.Duration
	conditions, since := map[string]*metav1.Condition{}, map[string]time.Time{}
	types := map[string]bool{cluster.ConditionCertificateRotated: false, registration.ConditionTokenRefreshed: false}
	for _, r := range t.registrations {
		kind := r.ConditionType()
		types[kind] = true
		o := a.obtain(ctx, t.seen, r, t.state)
		waits = append(waits, o.after)
		have := conditions[kind]
		switch {
		case o.condition == nil, have != nil && have.Status == metav1.ConditionFalse:
		case have == nil, o.condition.Status == metav1.ConditionFalse, o.since.After(since[kind]):
			conditions[kind], since[kind] = o.condition, o.since
		}
	}
	for kind, used := range types {
		if c := conditions[kind]; c != nil {
			a.set(t.want, *c)
		} else if !used && !isUnread(t.want) {
			meta.RemoveStatusCondition(&t.want.Status.Conditions, kind)
		}
	}
	return engine.Soonest(waits...)
}

func (a *agent) set(m *addonv1beta1.ManagedClusterAddOn, c metav1.Condition) {
	c.Message = text.Cut(c.Message, limits.ConditionMessage)
	c.LastTransitionTime = metav1.NewTime(a.Clock.Now())
	meta.SetStatusCondition(&m.Status.Conditions, c)
}

// report writes the conditions of an add-on when they change.
func (a *agent) report(ctx context.Context, t task) error {
	after := t.seen.DeepCopy()
	after.Status.Conditions = t.want.Status.Conditions
	if equality.Semantic.DeepEqual(t.seen.Status, after.Status) {
		return nil
	}
	_, err := a.write(ctx, t.seen, after)
	return err
}

// write writes the status of an add-on. It returns nil when the hub has the add-on no
// more, and fails when the hub has another state of it by now.
func (a *agent) write(
	ctx context.Context, before, after *addonv1beta1.ManagedClusterAddOn,
) (*addonv1beta1.ManagedClusterAddOn, error) {
	wrote, err := a.addOns.report(ctx, before, after)
	if err != nil {
		return nil, fmt.Errorf("report on the add-on %s to the hub: %w", before.Name, err)
	}
	if wrote != nil {
		a.writtenAddOns.Wrote(wrote)
	}
	return wrote, nil
}

// insistence is after how long the agent reports an add-on's health once more that
// somebody has overwritten. The hub does, while it takes the cluster for lost.
const insistence = 30 * time.Second

// health is what the agent has reported of an add-on.
type health struct {
	condition metav1.Condition
	at        time.Time
}

// checkHealth sets the condition Available of an add-on by its Lease, and returns
// after how long to look again. It leaves add-ons alone whose health others report.
func (a *agent) checkHealth(t task) time.Duration {
	if mode := t.seen.Status.HealthCheck.Mode; mode != "" && mode != addonv1beta1.HealthCheckModeLease {
		t.state.health = health{}
		return 0
	}
	at, now := a.places.get(registration.InstallNamespace(t.seen)), a.Clock.Now()
	if at == nil {
		return 0
	}
	var lease *coordinationv1.Lease
	var unreadable error
	if at.leases.IsComplete() {
		lease, _ = at.leases.Get(registration.InstallNamespace(t.seen), t.seen.Name)
	} else if unreadable = at.leases.Failure(); !apierrors.IsForbidden(unreadable) {
		return 0 // not yet
	}
	c, until := registration.Available(t.seen.Name, registration.HostingCluster(t.seen), lease, now)
	if unreadable != nil {
		c.Message += fmt.Sprintf(" The agent lacks rights in the namespace %s: bind the ClusterRole %s to it there: %v",
			registration.InstallNamespace(t.seen), cluster.AddOnRole, unreadable)
	}
	var wait time.Duration
	if !until.IsZero() {
		wait = until.Sub(now)
	}
	if has(t.seen, c) {
		t.state.health = health{condition: c, at: now}
		return wait
	}
	if left := t.state.health.at.Add(insistence).Sub(now); t.state.health.condition == c && left > 0 {
		if wait > 0 {
			left = min(left, wait)
		}
		return left
	}
	t.state.health = health{condition: c, at: now}
	a.set(t.want, c)
	return wait
}

// has reports whether an add-on has a condition.
func has(m *addonv1beta1.ManagedClusterAddOn, want metav1.Condition) bool {
	c := meta.FindStatusCondition(m.Status.Conditions, addon.ConditionAvailable)
	return c != nil && c.Status == want.Status && c.Reason == want.Reason &&
		c.Message == text.Cut(want.Message, limits.ConditionMessage)
}

// isFresh reports whether a Lease was renewed in time.
func isFresh(lease *coordinationv1.Lease, now time.Time) bool {
	c, _ := registration.Available("", "", lease, now)
	return c.Status == metav1.ConditionTrue
}
