package csr

import (
	"context"

	certificatesv1 "k8s.io/api/certificates/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/addons"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/watch"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// Register adds the controller to a manager. Its cache needs addons.Index.
func (c *Controller) Register(m manager.Manager) error {
	labelled, err := addons.NewCache(m, cluster.AddOnNameLabel, &certificatesv1.CertificateSigningRequest{})
	if err != nil {
		return err
	}
	c.requests = labelled
	appears := watch.Only(watch.Created, watch.Updated)
	template := &unstructured.Unstructured{}
	template.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(addons.KindOf(addon.TemplateResource)))
	return builder.ControllerManagedBy(m).
		Named("addon-csr").
		WatchesRawSource(source.Kind[client.Object](labelled, &certificatesv1.CertificateSigningRequest{},
			&handler.EnqueueRequestForObject{}, watch.When(open))).
		// A request that came too early is judged again.
		Watches(&v1alpha1.ManagedClusterAddOn{}, handler.EnqueueRequestsFromMapFunc(c.ofAddOn),
			builder.WithPredicates(appears, watch.Changed(addOnChanged))).
		Watches(&clusterv1.ManagedCluster{}, handler.EnqueueRequestsFromMapFunc(c.ofCluster),
			builder.WithPredicates(appears, watch.Changed(wasAccepted))).
		Watches(template, handler.EnqueueRequestsFromMapFunc(c.ofTemplate), builder.WithPredicates(appears, predicate.GenerationChangedPredicate{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4}).
		Complete(patch.RetryConflicts(c))
}

func addOnChanged(was, is *v1alpha1.ManagedClusterAddOn) bool {
	return !apiequality.Semantic.DeepEqual(was.Status.Registrations, is.Status.Registrations) ||
		!apiequality.Semantic.DeepEqual(was.Status.ConfigReferences, is.Status.ConfigReferences)
}

func wasAccepted(was, is *clusterv1.ManagedCluster) bool {
	return is.Spec.AcceptsClient() && !was.Spec.AcceptsClient()
}

func (c *Controller) ofAddOn(ctx context.Context, o client.Object) []reconcile.Request {
	return c.openOnes(ctx, client.MatchingLabels{cluster.NameLabel: o.GetNamespace(), cluster.AddOnNameLabel: o.GetName()})
}

func (c *Controller) ofCluster(ctx context.Context, o client.Object) []reconcile.Request {
	return c.openOnes(ctx, client.MatchingLabels{cluster.NameLabel: o.GetName()})
}

// ofTemplate are the requests of the add-ons that a template counts for.
func (c *Controller) ofTemplate(ctx context.Context, o client.Object) (out []reconcile.Request) {
	kind := v1alpha1.ConfigGroupResource{Group: addon.GroupName, Resource: addon.TemplateResource}
	names := map[string]bool{}
	for _, r := range addons.ConfiguredWith(ctx, c.client, kind, client.ObjectKeyFromObject(o)) {
		if !names[r.Name] {
			names[r.Name] = true
			out = append(out, c.openOnes(ctx, client.MatchingLabels{cluster.AddOnNameLabel: r.Name})...)
		}
	}
	return out
}

func (c *Controller) openOnes(ctx context.Context, labels client.MatchingLabels) []reconcile.Request {
	return watch.Matching(ctx, c.requests, &certificatesv1.CertificateSigningRequestList{}, open, labels)
}
