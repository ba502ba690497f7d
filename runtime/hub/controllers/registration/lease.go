// Package registration has the controllers of registration that take no more than a page
// each: whether clusters live (lease.go), and what revoked bootstrap tokens leave behind.
// The larger ones have a folder each.
package registration

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/watch"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// Leases keeps the lease through which each cluster gives its sign of life, and declares
// a cluster's availability unknown when the signs stop.
type Leases struct {
	client client.Client
	live   client.Reader
	events events.EventRecorder
	clock  clock.PassiveClock

	mu sync.Mutex
	// unheard are the clusters whose lease was there when the watch began, at began, and
	// was not renewed since.
	unheard sets.Set[string]
	began   time.Time
}

// NewLeases makes the controller. live reads from the server what c may have in a cache.
func NewLeases(c client.Client, live client.Reader, recorder events.EventRecorder, clk clock.PassiveClock) *Leases {
	return &Leases{client: c, live: live, events: recorder, clock: clk, unheard: sets.Set[string]{}}
}

// Register adds the controller to a manager.
func (c *Leases) Register(m manager.Manager) error {
	return builder.ControllerManagedBy(m).
		Named("lease").
		WithOptions(controller.Options{MaxConcurrentReconciles: 4}).
		For(&clusterv1.ManagedCluster{}).
		Watches(&coordinationv1.Lease{}, c.leaseEvents(), builder.WithPredicates(watch.When(ofCluster))).
		Complete(patch.RetryConflicts(c))
}

// leaseEvents enqueues the cluster of a lease, and notes whether it was heard of. A renewal
// that makes the lease good for longer enqueues nothing: a look is due when the time before
// is over, and finds it. Of the first since the watch began, nobody knows whether it does.
func (c *Leases) leaseEvents() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	enqueue := watch.ClusterOfNamespace()
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			if e.IsInInitialList {
				c.mu.Lock()
				if c.began.IsZero() {
					c.began = c.clock.Now()
				}
				c.unheard.Insert(e.Object.GetNamespace())
				c.mu.Unlock()
			}
			enqueue.Create(ctx, e, q)
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			was, ok := e.ObjectOld.(*coordinationv1.Lease)
			is, also := e.ObjectNew.(*coordinationv1.Lease)
			if ok && also && renewed(was, is) {
				first := c.heard(is.Namespace)
				if !first && was.Spec.RenewTime != nil && is.Spec.RenewTime.After(was.Spec.RenewTime.Time) {
					return
				}
			}
			enqueue.Update(ctx, e, q)
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) {
			c.heard(e.Object.GetNamespace())
			enqueue.Delete(ctx, e, q)
		},
	}
}

// heard notes that a cluster was heard of, and reports whether for the first time since the
// watch began.
func (c *Leases) heard(cluster string) (first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	first = c.unheard.Has(cluster)
	c.unheard.Delete(cluster)
	return first
}

// left is how long a cluster's lease stays good without a renewal. One that ran out while
// the hub was away counts from the hub's start: no agent could renew it.
func (c *Leases) left(l *coordinationv1.Lease, grace time.Duration) time.Duration {
	now := c.clock.Now()
	left := remaining(l, grace, now)
	c.mu.Lock()
	defer c.mu.Unlock()
	if left <= 0 && c.unheard.Has(l.Namespace) {
		return c.began.Add(grace).Sub(now)
	}
	return left
}

func ofCluster(l *coordinationv1.Lease) bool { return l.Name == cluster.LeaseName }

// Reconcile makes the lease of a cluster that was accepted at some time, and
// looks again when it would expire. It never declares a cluster available: that is
// the agent's.
func (c *Leases) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	mc := &clusterv1.ManagedCluster{}
	if err := c.client.Get(ctx, r.NamespacedName, mc, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !hasNamespace(mc) {
		return reconcile.Result{}, nil
	}
	lease := &coordinationv1.Lease{}
	key := types.NamespacedName{Namespace: mc.Name, Name: cluster.LeaseName}
	err := c.client.Get(ctx, key, lease, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err) && !mc.DeletionTimestamp.IsZero():
		return reconcile.Result{}, c.declareUnknown(ctx, mc)
	case apierrors.IsNotFound(err):
		return reconcile.Result{}, c.create(ctx, mc.Name)
	case err != nil:
		return reconcile.Result{}, err
	}
	left := c.left(lease, mc.Spec.LeaseGrace())
	if left <= 0 { // of what is renewed in memory, the cache hears of one in three
		lease = &coordinationv1.Lease{}
		if err := c.live.Get(ctx, key, lease); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err) // its deletion comes by the watch
		}
		left = c.left(lease, mc.Spec.LeaseGrace())
	}
	if left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	return reconcile.Result{RequeueAfter: mc.Spec.LeaseGrace()}, c.declareUnknown(ctx, mc)
}

// hasNamespace reports whether the cluster was accepted at some time, so that its
// namespace is its own.
func hasNamespace(mc *clusterv1.ManagedCluster) bool {
	accepted := meta.FindStatusCondition(mc.Status.Conditions, cluster.ConditionHubAccepted)
	if accepted == nil || cluster.IsReserved(mc.Name) {
		return false
	}
	// A cluster that could not be given its rights may be none whose namespace
	// is its own.
	return accepted.Status != metav1.ConditionFalse || accepted.Reason != cluster.ReasonError
}

// remaining is how long the lease stays good without a renewal, for which there
// is time for as long as grace.
func remaining(l *coordinationv1.Lease, grace time.Duration, now time.Time) time.Duration {
	if l.Spec.RenewTime == nil {
		return 0
	}
	return l.Spec.RenewTime.Add(grace).Sub(now)
}

func (c *Leases) create(ctx context.Context, name string) error {
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: cluster.LeaseName, Labels: map[string]string{cluster.NameLabel: name}},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To(cluster.LeaseName),
			RenewTime:      &metav1.MicroTime{Time: c.clock.Now()},
		},
	}
	err := c.client.Create(ctx, lease)
	if apierrors.IsAlreadyExists(err) {
		return c.adopt(ctx, name)
	}
	return patch.Explain(err, "create the lease of the cluster %s", name)
}

// adopt labels a lease that the cache does not show for want of a label, such as
// one that was restored from a backup without it. Without the label nobody would
// ever notice that the cluster has fallen silent.
func (c *Leases) adopt(ctx context.Context, name string) error {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: cluster.LeaseName}}
	label := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, cluster.NameLabel, name)
	return patch.Explain(client.IgnoreNotFound(c.client.Patch(ctx, lease, client.RawPatch(types.MergePatchType, label))), "label the lease of the cluster %s", name)
}

func (c *Leases) declareUnknown(ctx context.Context, mc *clusterv1.ManagedCluster) error {
	if have := meta.FindStatusCondition(mc.Status.Conditions, cluster.ConditionAvailable); have != nil && have.Status == metav1.ConditionUnknown {
		return nil
	}
	mc = mc.DeepCopy()
	written, err := patch.Status(ctx, c.client, mc, func() bool {
		return meta.SetStatusCondition(&mc.Status.Conditions, metav1.Condition{
			Type: cluster.ConditionAvailable, Status: metav1.ConditionUnknown,
			Reason: cluster.ReasonLeaseUpdateStopped, Message: cluster.MessageLeaseUpdateStopped,
		})
	})
	if err != nil {
		return fmt.Errorf("declare the cluster %s unknown: %w", mc.Name, err)
	}
	if !written {
		return nil
	}
	regarding := mc.DeepCopy()
	regarding.Namespace = mc.Name // where those look who have access to the cluster's namespace only
	c.events.Eventf(regarding, nil, corev1.EventTypeWarning, "AvailableUnknown", "AvailableUnknown",
		"The %s is successfully imported. However, the connection check from the managed cluster to the hub cluster has failed", mc.Name)
	return nil
}

// Clocks compares the clocks of agents with the hub's.
type Clocks struct {
	client client.Client
	clock  clock.PassiveClock
}

// NewClocks makes the controller.
func NewClocks(c client.Client, clk clock.PassiveClock) *Clocks {
	return &Clocks{client: c, clock: clk}
}

// Register adds the controller to a manager.
func (c *Clocks) Register(m manager.Manager) error {
	return builder.ControllerManagedBy(m).
		Named("clocksync").
		Watches(&coordinationv1.Lease{}, watch.ClusterOfNamespace(),
			builder.WithPredicates(watch.Only(watch.Updated), watch.Changed(renewed), watch.When(c.news))).
		Complete(patch.RetryConflicts(c))
}

// news reports whether a renewal that has just arrived says of the agent's clock what the
// cluster's status does not. It runs for each renewal, and copies nothing.
func (c *Clocks) news(l *coordinationv1.Lease) bool {
	mc, name := &clusterv1.ManagedCluster{}, types.NamespacedName{Name: l.Namespace}
	if err := c.client.Get(context.Background(), name, mc, client.UnsafeDisableDeepCopy); err != nil {
		return !apierrors.IsNotFound(err)
	}
	is := c.verdict(mc, l)
	have := meta.FindStatusCondition(mc.Status.Conditions, is.Type)
	return have == nil || have.Status != is.Status || have.Reason != is.Reason || have.Message != is.Message
}

func renewed(was, is *coordinationv1.Lease) bool {
	return is.Name == cluster.LeaseName && is.Spec.RenewTime != nil && !is.Spec.RenewTime.Equal(was.Spec.RenewTime)
}

// Reconcile judges a cluster's clock by the renewal that has just arrived.
func (c *Clocks) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	mc := &clusterv1.ManagedCluster{}
	if err := c.client.Get(ctx, r.NamespacedName, mc); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	lease := &coordinationv1.Lease{}
	if err := c.client.Get(ctx, types.NamespacedName{Namespace: mc.Name, Name: cluster.LeaseName}, lease); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	verdict := c.verdict(mc, lease)
	_, err := patch.Status(ctx, c.client, mc, func() bool { return meta.SetStatusCondition(&mc.Status.Conditions, verdict) })
	return reconcile.Result{}, patch.Explain(err, "report the clock of the cluster %s", mc.Name)
}

// verdict is what a renewal says now about the clock of a cluster's agent.
func (c *Clocks) verdict(mc *clusterv1.ManagedCluster, l *coordinationv1.Lease) metav1.Condition {
	skip := mc.Annotations[cluster.SkipClockSyncAnnotation] == "true"
	return condition(skip, l.Spec.RenewTime, mc.Spec.LeaseGrace(), c.clock.Now())
}

// condition is what a renewal at the time renewed, seen now, says about the
// agent's clock, which may differ by less than tolerance.
func condition(skip bool, renewed *metav1.MicroTime, tolerance time.Duration, now time.Time) metav1.Condition {
	if skip || renewed != nil && now.Sub(renewed.Time).Abs() < tolerance {
		return metav1.Condition{
			Type: cluster.ConditionClockSynced, Status: metav1.ConditionTrue,
			Reason: cluster.ReasonClockSynced, Message: cluster.MessageClockSynced,
		}
	}
	return metav1.Condition{
		Type: cluster.ConditionClockSynced, Status: metav1.ConditionFalse,
		Reason: cluster.ReasonClockOutOfSync, Message: cluster.MessageClockOutOfSync,
	}
}

// Taints keeps workloads away from clusters that are not available.
type Taints struct {
	client client.Client
}

// NewTaints makes the controller.
func NewTaints(c client.Client) *Taints { return &Taints{client: c} }

// Register adds the controller to a manager.
func (c *Taints) Register(m manager.Manager) error {
	return builder.ControllerManagedBy(m).Named("taint").For(&clusterv1.ManagedCluster{}).Complete(patch.RetryConflicts(c))
}

// Reconcile adds and removes the taints that follow from a cluster's
// availability. Admission stamps them with the time.
func (c *Taints) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	mc := &clusterv1.ManagedCluster{}
	if err := c.client.Get(ctx, r.NamespacedName, mc); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !mc.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil
	}
	_, err := patch.Object(ctx, c.client, mc, func() bool {
		want := taints(mc.Spec.Taints, mc.Status.Conditions)
		if slices.EqualFunc(want, mc.Spec.Taints, same) {
			return false
		}
		mc.Spec.Taints = want
		return true
	})
	return reconcile.Result{}, patch.Explain(err, "taint the cluster %s", mc.Name)
}

func same(a, b clusterv1.Taint) bool {
	return a.Key == b.Key && a.Value == b.Value && a.Effect == b.Effect
}

// taints is the list of taints that a cluster should have: those that others
// set, as they are, and of the hub's two the one that its condition calls for.
func taints(have []clusterv1.Taint, conditions []metav1.Condition) []clusterv1.Taint {
	key := cluster.UnreachableTaint
	if c := meta.FindStatusCondition(conditions, cluster.ConditionAvailable); c != nil {
		switch c.Status {
		case metav1.ConditionTrue:
			key = ""
		case metav1.ConditionFalse:
			key = cluster.UnavailableTaint
		}
	}
	want := clusterv1.Taint{Key: key, Effect: clusterv1.TaintEffectNoSelect}
	out := make([]clusterv1.Taint, 0, len(have)+1)
	found := key == ""
	for _, t := range have {
		switch {
		case !cluster.IsHubTaint(t.Key):
			out = append(out, t)
		case same(t, want) && !found:
			out, found = append(out, t), true
		}
	}
	if !found {
		out = append(out, want)
	}
	return out
}
