// Package clusterset has the controllers of cluster sets, each with a type of its own.
package clusterset

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/watch"
	"github.com/muster-fleet/terraform-provider-muster/runtime/membership"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// Defaults keeps the two cluster sets that every hub has: the default set, for clusters
// that are in no other, and the global one, for all.
type Defaults struct {
	client client.Client
}

// NewDefaults makes the controller.
func NewDefaults(c client.Client) *Defaults { return &Defaults{client: c} }

// Register adds the controller to a manager.
func (c *Defaults) Register(m manager.Manager) error {
	atStart := source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		for name := range selectors() {
			q.Add(watch.Request(name))
		}
		return nil
	})
	return builder.ControllerManagedBy(m).
		Named("clusterset-defaults").
		For(&clusterv1beta2.ManagedClusterSet{}, builder.WithPredicates(watch.When(isDefault))).
		WatchesRawSource(atStart).
		Complete(patch.RetryConflicts(c))
}

func isDefault(set *clusterv1beta2.ManagedClusterSet) bool {
	_, ok := selectors()[set.Name]
	return ok
}

// selectors are how the sets select their members.
func selectors() map[string]clusterv1beta2.ManagedClusterSelector {
	return map[string]clusterv1beta2.ManagedClusterSelector{
		cluster.DefaultSet: {SelectorType: clusterv1beta2.ExclusiveClusterSetLabel},
		cluster.GlobalSet:  {SelectorType: clusterv1beta2.LabelSelector, LabelSelector: &metav1.LabelSelector{}},
	}
}

// Reconcile makes a set that is missing, and rolls back how it selects its
// members unless an annotation says to leave it.
func (c *Defaults) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	want, ours := selectors()[r.Name]
	if !ours {
		return reconcile.Result{}, nil
	}
	set := &clusterv1beta2.ManagedClusterSet{}
	err := c.client.Get(ctx, r.NamespacedName, set)
	switch {
	case apierrors.IsNotFound(err):
		set = &clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: r.Name}, Spec: clusterv1beta2.ManagedClusterSetSpec{ClusterSelector: want}}
		if err := c.client.Create(ctx, set); err != nil && !apierrors.IsAlreadyExists(err) {
			return reconcile.Result{}, fmt.Errorf("make the cluster set %s: %w", r.Name, err)
		}
		return reconcile.Result{}, nil
	case err != nil:
		return reconcile.Result{}, err
	case !set.DeletionTimestamp.IsZero(), set.Annotations[cluster.AutoUpdateAnnotation] == "false":
		return reconcile.Result{}, nil
	case apiequality.Semantic.DeepEqual(set.Spec.ClusterSelector, want):
		return reconcile.Result{}, nil
	}
	set.Spec.ClusterSelector = want
	err = client.IgnoreNotFound(c.client.Update(ctx, set))
	return reconcile.Result{}, patch.Explain(err, "roll back the selector of the cluster set %s", r.Name)
}

// Bindings reports whether the set of each ManagedClusterSetBinding exists.
type Bindings struct {
	client client.Client
}

// NewBindings makes the controller.
func NewBindings(c client.Client) *Bindings { return &Bindings{client: c} }

// Register adds the controller to a manager.
func (c *Bindings) Register(m manager.Manager) error {
	comesOrGoes := watch.Only(watch.Created, watch.Deleted)
	return builder.ControllerManagedBy(m).
		Named("clusterset-binding").
		// Changes of the status pass, too: a status that was found right in an
		// outdated copy is looked at once more when the copy is up to date.
		For(&clusterv1beta2.ManagedClusterSetBinding{}).
		Watches(&clusterv1beta2.ManagedClusterSet{}, handler.EnqueueRequestsFromMapFunc(c.bindingsOf),
			builder.WithPredicates(comesOrGoes)).
		Complete(patch.RetryConflicts(c))
}

func (c *Bindings) bindingsOf(ctx context.Context, set client.Object) []reconcile.Request {
	ofSet := func(b *clusterv1beta2.ManagedClusterSetBinding) bool { return b.Spec.ClusterSet == set.GetName() }
	return watch.Matching(ctx, c.client, &clusterv1beta2.ManagedClusterSetBindingList{}, ofSet)
}

// Reconcile looks up the set of a binding.
func (c *Bindings) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	binding := &clusterv1beta2.ManagedClusterSetBinding{}
	if err := c.client.Get(ctx, r.NamespacedName, binding); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !binding.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil
	}
	condition := metav1.Condition{Type: cluster.ConditionBound, Status: metav1.ConditionTrue, Reason: cluster.ReasonClusterSetBound}
	err := c.client.Get(ctx, types.NamespacedName{Name: binding.Spec.ClusterSet}, &clusterv1beta2.ManagedClusterSet{})
	switch {
	case apierrors.IsNotFound(err):
		condition.Status, condition.Reason = metav1.ConditionFalse, cluster.ReasonClusterSetNotFound
	case err != nil:
		return reconcile.Result{}, err
	}
	_, err = patch.Status(ctx, c.client, binding, func() bool { return meta.SetStatusCondition(&binding.Status.Conditions, condition) }, patch.SoleWriter())
	return reconcile.Result{}, patch.Explain(err, "report on the binding %s", r.NamespacedName)
}

// eventUpdated is what upstream's controller calls a change of the list in its
// log.
const eventUpdated = "ManagedNamespacesUpdated"

// Namespaces reports to each cluster which namespaces its cluster sets want to have in
// it.
type Namespaces struct {
	client client.Client
}

// NewNamespaces makes the controller.
func NewNamespaces(c client.Client) *Namespaces { return &Namespaces{client: c} }

// Register adds the controller to a manager.
func (c *Namespaces) Register(m manager.Manager) error {
	wantsNamespaces := watch.Changed(func(was, is *clusterv1beta2.ManagedClusterSet) bool {
		return was.Generation != is.Generation && (hasNamespaces(was) || hasNamespaces(is))
	})
	hasAny := predicate.Or(watch.Only(watch.Updated), watch.When(hasNamespaces))
	return builder.ControllerManagedBy(m).
		Named("clusterset-namespaces").
		For(&clusterv1.ManagedCluster{}, builder.WithPredicates(watch.Appears(), watch.Changed(clusterChanged))).
		Watches(&clusterv1beta2.ManagedClusterSet{}, handler.EnqueueRequestsFromMapFunc(c.membersOf),
			builder.WithPredicates(hasAny, wantsNamespaces)).
		Complete(patch.RetryConflicts(c))
}

// clusterChanged selects changes of the labels and of the list itself: one that
// was found right in an outdated copy is looked at once more when the copy is up
// to date.
func clusterChanged(was, is *clusterv1.ManagedCluster) bool {
	return !maps.Equal(was.Labels, is.Labels) || !apiequality.Semantic.DeepEqual(was.Status.ManagedNamespaces, is.Status.ManagedNamespaces)
}

func hasNamespaces(s *clusterv1beta2.ManagedClusterSet) bool {
	return len(s.Spec.ManagedNamespaces) > 0
}

func (c *Namespaces) membersOf(ctx context.Context, o client.Object) []reconcile.Request {
	selector, err := membership.Selector(o.(*clusterv1beta2.ManagedClusterSet))
	if err != nil {
		return nil
	}
	return watch.Matching[client.Object](ctx, c.client, &clusterv1.ManagedClusterList{}, nil, client.MatchingLabelsSelector{Selector: selector})
}

// Reconcile gathers the namespaces of all sets that a cluster is in.
func (c *Namespaces) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	mc := &clusterv1.ManagedCluster{}
	if err := c.client.Get(ctx, r.NamespacedName, mc); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !mc.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil
	}
	sets := &clusterv1beta2.ManagedClusterSetList{}
	if err := c.client.List(ctx, sets, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, fmt.Errorf("list the cluster sets: %w", err)
	}
	want := wanted(mc, sets.Items)
	written, err := patch.Status(ctx, c.client, mc, func() bool {
		changed := !apiequality.Semantic.DeepEqual(want, mc.Status.ManagedNamespaces)
		mc.Status.ManagedNamespaces = want
		return changed
	})
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("tell the cluster %s its managed namespaces: %w", mc.Name, err)
	}
	if !written {
		return reconcile.Result{}, nil
	}
	log.FromContext(ctx).Info("managed namespaces changed", "event", eventUpdated, "cluster", mc.Name, "count", len(want))
	return reconcile.Result{}, nil
}

// wanted lists the namespaces of the sets that a cluster is in, by set and name.
// What the agent reported about one that stays is kept.
func wanted(mc *clusterv1.ManagedCluster, sets []clusterv1beta2.ManagedClusterSet) []clusterv1.ClusterSetManagedNamespaceConfig {
	var out []clusterv1.ClusterSetManagedNamespaceConfig
	for i := range sets {
		set := &sets[i]
		selector, err := membership.Selector(set)
		if err != nil || !set.DeletionTimestamp.IsZero() || !selector.Matches(labels.Set(mc.Labels)) {
			continue
		}
		for _, n := range set.Spec.ManagedNamespaces {
			entry := clusterv1.ClusterSetManagedNamespaceConfig{Name: n.Name, ClusterSet: set.Name}
			for _, have := range mc.Status.ManagedNamespaces {
				if have.Name == n.Name && have.ClusterSet == set.Name {
					entry.Conditions = have.Conditions
				}
			}
			out = append(out, entry)
		}
	}
	slices.SortFunc(out, func(a, b clusterv1.ClusterSetManagedNamespaceConfig) int {
		return cmp.Or(cmp.Compare(a.ClusterSet, b.ClusterSet), cmp.Compare(a.Name, b.Name))
	})
	return out
}
