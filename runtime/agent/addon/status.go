package addon

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/engine"
	addonv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/limits"
)

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
