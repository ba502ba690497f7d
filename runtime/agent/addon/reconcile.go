package addon

import (
	"context"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/internal/retry"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/engine"
	addonv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1beta1"
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
	case err != nil:
		return reconcile.Result{}, err
	case seen == nil:
		a.forget(r.Name)
		return reconcile.Result{}, a.removeStale(ctx, r.Name, nil)
	case a.writtenAddOns.IsBehind(r.NamespacedName, seen):
		return reconcile.Result{RequeueAfter: engine.CopyTimeout}, nil
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
