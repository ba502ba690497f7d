package addon

import (
	"context"
	"errors"
	"slices"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/configs"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/addons"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/apply"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/watch"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// Stage is a part of what the hub does for an add-on in a cluster.
type Stage interface {
	// Pass brings one ManagedClusterAddOn forward, and says after how long to look at it
	// again; 0 if nothing but an event is waited for. What it has to say goes into the
	// status of the copy that it gets, which the stages before it have changed and which is
	// written after the last one. The copy is nil when there is no such add-on. One without
	// a UID is about to be created: nothing is made for it yet.
	Pass(
		ctx context.Context, key types.NamespacedName, a *v1alpha1.ManagedClusterAddOn,
	) (again time.Duration, err error)
	// Changed reports whether a change of the add-on concerns the stage.
	Changed(was, is *v1alpha1.ManagedClusterAddOn) bool
	// Watch adds what else the stage follows to the controller of a manager.
	Watch(m manager.Manager, b *builder.Builder) (*builder.Builder, error)
}

// Stages takes each ManagedClusterAddOn through all stages, and writes what they say of
// it in one write.
type Stages struct {
	client client.Client
	stages []Stage
}

// NewStages makes the controller.
func NewStages(c client.Client, stages ...Stage) *Stages { return &Stages{client: c, stages: stages} }

// stageWorkers is how many add-ons are reconciled at a time.
const stageWorkers = 10

// Register adds the controller to a manager. Its cache needs addons.Index.
func (c *Stages) Register(m manager.Manager) (err error) {
	b := builder.ControllerManagedBy(m).
		Named("addon-stages").
		For(&v1alpha1.ManagedClusterAddOn{}, builder.WithPredicates(watch.Changed(c.changed))).
		Watches(&v1alpha1.ClusterManagementAddOn{}, addons.OfDefinition(c.client),
			builder.WithPredicates(watch.Changed(addons.ManagerChanged)))
	for _, s := range c.stages {
		if b, err = s.Watch(m, b); err != nil {
			return err
		}
	}
	return addons.WatchConfigurations(b, c.client).
		WithOptions(controller.Options{MaxConcurrentReconciles: stageWorkers}).
		Complete(patch.RetryConflicts(c))
}

func (c *Stages) changed(was, is *v1alpha1.ManagedClusterAddOn) bool {
	return was.UID != is.UID || slices.ContainsFunc(c.stages, func(s Stage) bool { return s.Changed(was, is) })
}

// Reconcile takes one ManagedClusterAddOn through the stages. A stage that fails does not
// hold up the others, nor what they say.
func (c *Stages) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	var a *v1alpha1.ManagedClusterAddOn
	if r.Namespace != "" { // others are for what the clusters of an add-on share
		var err error
		if a, err = apply.Read(ctx, c.client, r.NamespacedName, &v1alpha1.ManagedClusterAddOn{}); err != nil {
			return reconcile.Result{}, err
		}
	}
	was := v1alpha1.ManagedClusterAddOnStatus{}
	if a != nil {
		was = *a.Status.DeepCopy()
	}
	var result reconcile.Result
	var problems []error
	for _, s := range c.stages {
		again, err := s.Pass(ctx, r.NamespacedName, a)
		problems = append(problems, err)
		if again > 0 && (result.RequeueAfter == 0 || again < result.RequeueAfter) {
			result.RequeueAfter = again
		}
	}
	if a != nil {
		problems = append(problems, c.write(ctx, a, was))
	}
	return result, errors.Join(problems...)
}

// Begin puts what the stages say of an add-on that is about to be created into its status.
func (c *Stages) Begin(ctx context.Context, a *v1alpha1.ManagedClusterAddOn) error {
	var problems []error
	for _, s := range c.stages {
		_, err := s.Pass(ctx, client.ObjectKeyFromObject(a), a)
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// write writes the status, where it is another one now.
func (c *Stages) write(
	ctx context.Context, a *v1alpha1.ManagedClusterAddOn, was v1alpha1.ManagedClusterAddOnStatus,
) error {
	if !a.DeletionTimestamp.IsZero() && len(a.Finalizers) == 0 {
		return nil // it is gone
	}
	is := a.Status
	a.Status = was
	_, err := patch.Status(ctx, c.client, a, func() bool {
		a.Status = is
		return !apiequality.Semantic.DeepEqual(was, is)
	})
	return patch.Explain(err, "report on the add-on %s of the cluster %s", a.Name, a.Namespace)
}

// Owners is the stage that has every ManagedClusterAddOn belong to its
// ClusterManagementAddOn, so that it is deleted with it. The managers of add-ons wait for
// this. It is the first stage, as it writes.
type Owners struct {
	client client.Client
}

// NewOwners makes the stage.
func NewOwners(c client.Client) *Owners { return &Owners{client: c} }

// Changed implements Stage.
func (c *Owners) Changed(was, is *v1alpha1.ManagedClusterAddOn) bool {
	return !apiequality.Semantic.DeepEqual(was.OwnerReferences, is.OwnerReferences)
}

// Watch implements Stage.
func (c *Owners) Watch(_ manager.Manager, b *builder.Builder) (*builder.Builder, error) {
	return b, nil
}

// Pass gives one ManagedClusterAddOn its owner.
func (c *Owners) Pass(
	ctx context.Context, _ types.NamespacedName, a *v1alpha1.ManagedClusterAddOn,
) (time.Duration, error) {
	if a == nil || a.UID == "" || !a.DeletionTimestamp.IsZero() {
		return 0, nil
	}
	definition, err := addons.Definition(ctx, c.client, a.Name)
	if err != nil || definition == nil || !definition.DeletionTimestamp.IsZero() || configs.SelfManaged(definition) {
		return 0, err
	}
	_, err = patch.Object(ctx, c.client, a, func() bool {
		want := owners(a.OwnerReferences, addons.OwnerReference(definition))
		changed := !apiequality.Semantic.DeepEqual(a.OwnerReferences, want)
		a.OwnerReferences = want
		return changed
	})
	return 0, patch.Explain(err, "make the add-on %s of the cluster %s belong to its ClusterManagementAddOn",
		a.Name, a.Namespace)
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
