package addon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
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
	begin      Begin
	first      *FirstStatuses
}

// Begin puts what there is to say of add-ons that are about to be created in clusters into
// their statuses. Without it, or where it fails, that is written when they are there.
type Begin func(
	ctx context.Context, definition *v1alpha1.ClusterManagementAddOn, created []*v1alpha1.ManagedClusterAddOn,
) error

// BeginWith begins with a configuration, and goes on with stages.
func BeginWith(configure Begin, stages *Stages) Begin {
	return func(
		ctx context.Context, definition *v1alpha1.ClusterManagementAddOn, created []*v1alpha1.ManagedClusterAddOn,
	) error {
		if err := configure(ctx, definition, created); err != nil {
			return err
		}
		var problems []error
		for _, a := range created {
			problems = append(problems, stages.Begin(ctx, a))
		}
		return errors.Join(problems...)
	}
}

// NewInstaller makes the controller. begin may be nil; first gets what it says.
func NewInstaller(c client.Client, rule selection.Rule, begin Begin, first *FirstStatuses) *Installer {
	return &Installer{client: c, selections: addons.NewSelections(c, rule), begin: begin, first: first}
}

// FirstStatuses are the statuses of ManagedClusterAddOns that are about to be created.
// Clients can't set a status at a creation, so the store of this process takes it from
// here. It is safe for concurrent use.
type FirstStatuses struct{ of sync.Map }

// Of is the status of an object that is about to be created, nil when nothing is known.
func (f *FirstStatuses) Of(u *unstructured.Unstructured) map[string]any {
	status, known := f.of.Load(client.ObjectKeyFromObject(u))
	if !known || u.GetAPIVersion() != v1alpha1.GroupVersion.String() {
		return nil
	}
	out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(status)
	if err != nil {
		return nil
	}
	return out
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
	added := c.addAll(ctx, a, p.add)
	if len(p.add)+len(p.remove) > 0 {
		log.FromContext(ctx).V(1).Info("an add-on follows its placements", "addon", a.Name, "added", len(p.add), "removed", len(p.remove))
	}
	return reconcile.Result{}, errors.Join(removed, added)
}

// addAll makes the add-on in clusters.
func (c *Installer) addAll(ctx context.Context, a *v1alpha1.ClusterManagementAddOn, clusters []string) error {
	var created []*v1alpha1.ManagedClusterAddOn
	for _, name := range clusters {
		mc, err := apply.Read(ctx, c.client, types.NamespacedName{Name: name},
			&clusterv1.ManagedCluster{}, client.UnsafeDisableDeepCopy)
		if err != nil {
			return err
		}
		if mc == nil {
			continue // it went a moment ago, and its placements will change
		}
		created = append(created, &v1alpha1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{
			Namespace: name, Name: a.Name, Annotations: addons.Annotations(mc.Annotations),
			OwnerReferences: []metav1.OwnerReference{addons.OwnerReference(a)},
		}})
	}
	if c.begin != nil && len(created) > 0 {
		if err := c.begin(ctx, a, created); err != nil {
			log.FromContext(ctx).V(1).Info("add-ons begin without a status", "addon", a.Name, "why", err.Error())
		}
	}
	return apply.Parallel(len(created), func(i int) error { return c.add(ctx, created[i]) })
}

// add makes the add-on of a cluster, which gets what the cluster's annotations say
// to add-ons.
func (c *Installer) add(ctx context.Context, a *v1alpha1.ManagedClusterAddOn) error {
	if c.begin != nil {
		key := client.ObjectKeyFromObject(a)
		c.first.of.Store(key, a.Status.DeepCopy())
		defer c.first.of.Delete(key)
	}
	err := c.client.Create(ctx, a)
	switch {
	case apierrors.IsAlreadyExists(err): // an event that shows it follows
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause): // the cluster goes
	case err != nil:
		return fmt.Errorf("install the add-on %s in the cluster %s: %w", a.Name, a.Namespace, err)
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
