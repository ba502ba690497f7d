package addon

import (
	"context"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/retry"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/loop"
	addonv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1beta1"
)

// workers is how many add-ons are looked after at a time.
const workers = 8

// For driverPause the driver is not written once more, so that agent and hub don't take
// turns, and for unknownPause after a hub has not kept it.
const (
	driverPause  = 10 * time.Second
	unknownPause = time.Hour
)

// owned is a Secret of an add-on.
type owned struct {
	client.ObjectKey
	addOn string
}

// state is what the agent remembers of an add-on.
type state struct {
	// slots are by the names of their Secrets.
	slots map[string]*slot
	// health is what was last reported by the Lease.
	health health
	// driven is until when the driver is not written.
	driven time.Time
	// failing is how writes of the status go, and until when they pause.
	failing *retry.Backoff
	until   time.Time
	// invalid keeps quiet about registrations that cannot be carried out.
	invalid retry.Once
}

// task is one add-on in a pass.
type task struct {
	// seen is the add-on as the hub has it, and want as the agent sees to it.
	seen, want    *addonv1beta1.ManagedClusterAddOn
	state         *state
	registrations []registration.Registration
}

// pass looks after all add-ons once, and returns after how long to do so again.
func (a *agent) pass(ctx context.Context) time.Duration {
	tasks := a.tasks()
	a.forget(tasks)
	// Without a Secret's name, all of an add-on are kept.
	kept, inUse := sets.New[owned](), sets.New[string]()
	for _, t := range tasks {
		inUse.Insert(registration.InstallNamespace(t.want))
		for _, r := range t.registrations {
			kept.Insert(owned{client.ObjectKey{Namespace: r.Namespace, Name: r.Secret()}, r.AddOn})
		}
		if isUnread(t.want) {
			kept.Insert(owned{addOn: t.want.Name})
		}
	}
	a.places.follow(ctx, inUse.Union(a.journal.namespaces()))
	waits := make([]time.Duration, len(tasks))
	var group errgroup.Group
	group.SetLimit(workers)
	for i, t := range tasks {
		group.Go(func() error {
			waits[i] = a.advance(ctx, t)
			return nil
		})
	}
	_ = group.Wait()
	a.requests.rest()
	return shortest(append(waits, a.removeStale(ctx, kept, inUse)))
}

// shortest is the shortest of the waits that are not 0, which is to wait for news.
func shortest(waits []time.Duration) time.Duration {
	out := loop.Never
	for _, w := range waits {
		if w > 0 {
			out = min(out, w)
		}
	}
	return out
}

// tasks are the add-ons of the hub, in the order of their names, so that of two that
// want the same Secret it is always the same one that gets it.
func (a *agent) tasks() []task {
	seen := a.addOns.objects()
	slices.SortFunc(seen, func(x, y *addonv1beta1.ManagedClusterAddOn) int { return strings.Compare(x.Name, y.Name) })
	tasks := make([]task, len(seen))
	for i, m := range seen {
		m = a.writtenAddOns.Latest(client.ObjectKeyFromObject(m), m)
		t := task{seen: m, want: m.DeepCopy(), state: a.states[m.Name]}
		if t.state == nil {
			t.state = &state{slots: map[string]*slot{}, failing: retry.New(a.Clock, retry.Quick(time.Minute))}
			a.states[m.Name] = t.state
		}
		a.names.Store(m.Name, true)
		registration.SetDriver(t.want, a.Driver)
		var err error
		if t.registrations, err = registration.Of(t.want); err == nil {
			t.state.invalid.Clear()
		} else if t.state.invalid.Changed(err.Error()) {
			a.Log.Warn("a registration of the add-on cannot be carried out", "addon", m.Name, "err", err)
		}
		tasks[i] = t
	}
	return tasks
}

// forget drops what is remembered of add-ons and registrations that are gone.
func (a *agent) forget(tasks []task) {
	names := sets.New[string]()
	for _, t := range tasks {
		names.Insert(t.want.Name)
		for secret := range t.state.slots {
			if !slices.ContainsFunc(t.registrations, func(r registration.Registration) bool { return r.Secret() == secret }) {
				delete(t.state.slots, secret)
			}
		}
	}
	for name := range a.states {
		if !names.Has(name) {
			delete(a.states, name)
			a.names.Delete(name)
		}
	}
	a.writtenAddOns.Forget(func(key client.ObjectKey) bool { return !names.Has(key.Name) })
}

// isUnread tells that the hub has not looked at an add-on yet, as after it was
// restored from a backup, which has no status: it has no say in what is left over.
func isUnread(m *addonv1beta1.ManagedClusterAddOn) bool {
	return len(m.Status.Registrations) == 0 && meta.FindStatusCondition(m.Status.Conditions, registration.ConditionRegistrationApplied) == nil
}

// advance takes an add-on as far as it goes now. It returns after how long to look
// again; 0 waits for news.
func (a *agent) advance(ctx context.Context, t task) time.Duration {
	if left := t.state.until.Sub(a.Clock.Now()); left > 0 {
		return left
	}
	wait, err := a.writeDriver(ctx, &t)
	if err == nil {
		waits := []time.Duration{wait, a.checkHealth(t)}
		waits = append(waits, a.register(ctx, t))
		wait, err = shortest(waits), a.report(ctx, t)
	}
	if err == nil {
		t.state.failing.Reset()
		return wait
	}
	if ctx.Err() != nil {
		return 0
	}
	t.state.health = health{} // which was not reported
	if apierrors.IsConflict(err) {
		return time.Second // the mirror is about to show why
	}
	after := t.state.failing.Next()
	t.state.until = a.Clock.Now().Add(after)
	a.Log.Debug("cannot report on an add-on, trying again", "addon", t.seen.Name, "err", err)
	return after
}

// writeDriver writes the driver before anything else: the hub prepares for it. A hub
// whose add-ons have no driver, or who writes another one, is asked again only after a
// pause, and the agent does as it was told in any case.
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
