package addon

import (
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	addonv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/limits"
)

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
