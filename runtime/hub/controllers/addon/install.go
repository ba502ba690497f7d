package addon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/configs"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/addons"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/apply"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/selection"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/watch"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// Installer keeps a ManagedClusterAddOn in each cluster that the placements of an add-on
// select, and in no other one. Add-ons with the strategy Manual, and those that manage
// themselves, are left to others.
type Installer struct {
	client     client.Client
	selections *addons.Selections
}

// NewInstaller makes the controller.
func NewInstaller(c client.Client, rule selection.Rule) *Installer {
	return &Installer{client: c, selections: addons.NewSelections(c, rule)}
}

// Register adds the controller to a manager. Its cache needs addons.Index.
func (c *Installer) Register(m manager.Manager) error {
	b := builder.ControllerManagedBy(m).
		Named("addon-management").
		For(&v1alpha1.ClusterManagementAddOn{}, builder.WithPredicates(watch.Changed(definitionChanged))).
		// One that a user deletes comes back; one that a user makes where none belongs goes.
		Watches(&v1alpha1.ManagedClusterAddOn{}, watch.Named(), builder.WithPredicates(watch.Only(watch.Created, watch.Deleted)))
	return c.selections.Watch(b).Complete(patch.RetryConflicts(c))
}

// definitionChanged selects changes of where an add-on is to be, and of who sees to
// it.
func definitionChanged(was, is *v1alpha1.ClusterManagementAddOn) bool {
	return was.Generation != is.Generation || configs.SelfManaged(was) != configs.SelfManaged(is)
}

// Reconcile installs and removes one add-on.
func (c *Installer) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	a, err := addons.Definition(ctx, c.client, r.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	if a == nil || !a.DeletionTimestamp.IsZero() || configs.SelfManaged(a) || a.Spec.InstallStrategy.Type != v1alpha1.InstallStrategyPlacements {
		c.selections.Forget(r.Name)
		return reconcile.Result{}, nil
	}
	placed, err := c.selections.Of(ctx, a)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("find the clusters of the add-on %s: %w", a.Name, err)
	}
	have, err := addons.InClusters(ctx, c.client, a.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	p := decide(placed, have)
	removed := apply.Parallel(len(p.remove), func(i int) error { return c.remove(ctx, p.remove[i]) })
	added := apply.Parallel(len(p.add), func(i int) error { return c.add(ctx, a, p.add[i]) })
	if len(p.add)+len(p.remove) > 0 {
		log.FromContext(ctx).V(1).Info("an add-on follows its placements", "addon", a.Name, "added", len(p.add), "removed", len(p.remove))
	}
	return reconcile.Result{}, errors.Join(removed, added)
}

// add makes the add-on of a cluster, which gets what the cluster's annotations say
// to add-ons.
func (c *Installer) add(ctx context.Context, a *v1alpha1.ClusterManagementAddOn, cluster string) error {
	mc := &clusterv1.ManagedCluster{}
	if err := c.client.Get(ctx, types.NamespacedName{Name: cluster}, mc); err != nil {
		if apierrors.IsNotFound(err) {
			return nil // it went a moment ago, and its placements will change
		}
		return fmt.Errorf("read the cluster %s: %w", cluster, err)
	}
	err := c.client.Create(ctx, &v1alpha1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{
		Namespace: cluster, Name: a.Name, Annotations: addons.Annotations(mc.Annotations), OwnerReferences: []metav1.OwnerReference{addons.OwnerReference(a)},
	}})
	switch {
	case apierrors.IsAlreadyExists(err): // an event that shows it follows
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause): // the cluster goes
	case err != nil:
		return fmt.Errorf("install the add-on %s in the cluster %s: %w", a.Name, cluster, err)
	}
	return nil
}

func (c *Installer) remove(ctx context.Context, a *v1alpha1.ManagedClusterAddOn) error {
	gone := &v1alpha1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: a.Name}}
	err := c.client.Delete(ctx, gone, client.Preconditions{UID: &a.UID})
	// A conflict means that the add-on of that name is another one by now.
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("remove the add-on %s from the cluster %s: %w", a.Name, a.Namespace, err)
	}
	return nil
}

// plan is where an add-on is to be added and removed.
type plan struct {
	// add are clusters, by name.
	add    []string
	remove []*v1alpha1.ManagedClusterAddOn
}

// decide plans where an add-on is to be. Its placements select together; one that
// does not exist selects nothing, so an add-on whose only placement is deleted goes
// from all clusters, as upstream.
//
// An add-on that is on its way out still counts as there. Nothing is removed while
// the decisions of a placement are being rewritten, or can't be used: a cluster that
// moves from one decision to another is in none for a moment. Upstream removes it
// then, and installs it again.
func decide(placed []selection.Placed, have []*v1alpha1.ManagedClusterAddOn) plan {
	wanted, kept := sets.Set[string]{}, sets.Set[string]{}
	certain := true
	for _, p := range placed {
		if !p.Missing && (p.Problem != nil || !p.Settled) {
			certain = false
		}
		for _, g := range p.Groups {
			wanted.Insert(g.Clusters...)
		}
		kept = kept.Union(p.Clusters)
	}
	var out plan
	there := sets.Set[string]{}
	for _, a := range have {
		there.Insert(a.Namespace)
		if certain && !kept.Has(a.Namespace) && a.DeletionTimestamp.IsZero() {
			out.remove = append(out.remove, a)
		}
	}
	out.add = slices.Sorted(maps.Keys(wanted.Difference(there)))
	return out
}

// Owners has every ManagedClusterAddOn belong to its ClusterManagementAddOn, so that it is
// deleted with it. The managers of add-ons wait for this.
type Owners struct {
	client client.Client
}

// NewOwners makes the controller.
func NewOwners(c client.Client) *Owners { return &Owners{client: c} }

// Register adds the controller to a manager. Its cache needs addons.Index.
func (c *Owners) Register(m manager.Manager) error {
	return builder.ControllerManagedBy(m).
		Named("addon-owner").
		For(&v1alpha1.ManagedClusterAddOn{}, builder.WithPredicates(watch.Appears(), watch.Changed(ownersChanged))).
		Watches(&v1alpha1.ClusterManagementAddOn{}, addons.OfDefinition(c.client),
			builder.WithPredicates(watch.Appears(), watch.Changed(addons.ManagerChanged))).
		Complete(patch.RetryConflicts(c))
}

func ownersChanged(was, is *v1alpha1.ManagedClusterAddOn) bool {
	return !apiequality.Semantic.DeepEqual(was.OwnerReferences, is.OwnerReferences)
}

// Reconcile gives one ManagedClusterAddOn its owner.
func (c *Owners) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	a := &v1alpha1.ManagedClusterAddOn{}
	if err := c.client.Get(ctx, r.NamespacedName, a); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !a.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil
	}
	definition, err := addons.Definition(ctx, c.client, a.Name)
	if err != nil || definition == nil || !definition.DeletionTimestamp.IsZero() || configs.SelfManaged(definition) {
		return reconcile.Result{}, err
	}
	_, err = patch.Object(ctx, c.client, a, func() bool {
		want := owners(a.OwnerReferences, addons.OwnerReference(definition))
		changed := !apiequality.Semantic.DeepEqual(a.OwnerReferences, want)
		a.OwnerReferences = want
		return changed
	})
	return reconcile.Result{}, patch.Explain(err, "make the add-on %s of the cluster %s belong to its ClusterManagementAddOn", a.Name, a.Namespace)
}

// owners adds an owner to others. One of the same group, kind and name is replaced:
// it may be of another version, or of an object that is gone. An object has one
// controlling owner at most, so where another one controls it, ours does not: the
// API would refuse a second one, as upstream finds out again and again.
func owners(have []metav1.OwnerReference, want metav1.OwnerReference) []metav1.OwnerReference {
	at := -1
	for i, o := range have {
		same := o.Kind == want.Kind && o.Name == want.Name && group(o) == group(want)
		switch {
		case same:
			at = i
		case ptr.Deref(o.Controller, false):
			want.Controller = nil
		}
	}
	out := slices.Clone(have)
	if at < 0 {
		return append(out, want)
	}
	out[at] = want
	return out
}

func group(o metav1.OwnerReference) string {
	return schema.FromAPIVersionAndKind(o.APIVersion, o.Kind).Group
}

// Lifecycle notes on ClusterManagementAddOns that say they manage themselves, and are made
// from a template, that it is the hub who is their manager.
type Lifecycle struct {
	client client.Client
}

// NewLifecycle makes the controller.
func NewLifecycle(c client.Client) *Lifecycle { return &Lifecycle{client: c} }

// Register adds the controller to a manager.
func (c *Lifecycle) Register(m manager.Manager) error {
	return builder.ControllerManagedBy(m).
		Named("addon-lifecycle").
		For(&v1alpha1.ClusterManagementAddOn{}, builder.WithPredicates(watch.When(claimedBySelf))).
		Complete(patch.RetryConflicts(c))
}

// claimedBySelf selects add-ons from templates whose annotation says "self".
func claimedBySelf(a *v1alpha1.ClusterManagementAddOn) bool {
	return a.Annotations[addon.LifecycleAnnotation] == addon.LifecycleSelf && configs.FromTemplate(a)
}

// Reconcile empties the annotation, as upstream's managers do for the add-ons that
// they run. Nothing sets another value after that: until somebody removes the
// annotation, the hub neither installs nor configures the add-on.
func (c *Lifecycle) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	a, err := addons.Definition(ctx, c.client, r.Name)
	if err != nil || a == nil || !claimedBySelf(a) {
		return reconcile.Result{}, err
	}
	a = a.DeepCopy()
	if _, err := patch.Object(ctx, c.client, a, func() bool {
		a.Annotations[addon.LifecycleAnnotation] = ""
		return true
	}); err != nil {
		return reconcile.Result{}, fmt.Errorf("note who manages the add-on %s: %w", a.Name, err)
	}
	return reconcile.Result{}, nil
}
