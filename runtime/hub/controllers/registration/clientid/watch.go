package clientid

import (
	"context"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	musterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/watch"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// byClientID indexes ManagedClusters by their client ID.
const byClientID = "clientID"

func clientIDOf(o client.Object) []string {
	if id := o.GetAnnotations()[muster.ClientIDAnnotation]; id != "" {
		return []string{id}
	}
	return nil
}

// Register adds the controller, and the one of left-over clusters, to a manager.
func (c *Controller) Register(m manager.Manager) error {
	if err := m.GetFieldIndexer().IndexField(context.Background(), &clusterv1.ManagedCluster{}, byClientID, clientIDOf); err != nil {
		return err
	}
	unanswered := func(matches func(*musterv1alpha1.ClusterRegistration, client.Object) bool) handler.EventHandler {
		return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
			return watch.Matching(ctx, c.client, &musterv1alpha1.ClusterRegistrationList{}, func(r *musterv1alpha1.ClusterRegistration) bool {
				return matches(r, o)
			})
		})
	}
	err := builder.ControllerManagedBy(m).
		Named("cluster-registration").
		For(&musterv1alpha1.ClusterRegistration{}, builder.WithPredicates(watch.Only(watch.Created, watch.Updated))).
		Watches(&clusterv1.ManagedCluster{}, unanswered(c.concerns), builder.WithPredicates(watch.Changed(judgedAgain))).
		Watches(&corev1.Secret{}, unanswered(madeWith), builder.WithPredicates(predicate.ResourceVersionChangedPredicate{})).
		Complete(patch.RetryConflicts(c))
	if err != nil {
		return err
	}
	return builder.ControllerManagedBy(m).
		Named("cluster-registration-leftovers").
		For(&clusterv1.ManagedCluster{}, builder.WithPredicates(watch.When(isRegistered))).
		Watches(&certificatesv1.CertificateSigningRequest{}, watch.ValueOfLabel(cluster.NameLabel),
			builder.WithPredicates(watch.Only(watch.Created, watch.Updated))).
		Complete(patch.RetryConflicts(NewLeftovers(c.client, c.live, c.clock)))
}

// judgedAgain reports whether the change of a cluster may change answers.
func judgedAgain(was, is *clusterv1.ManagedCluster) bool {
	return was.Annotations[muster.ClientIDAnnotation] != is.Annotations[muster.ClientIDAnnotation] ||
		was.Annotations[muster.ClusterUIDAnnotation] != is.Annotations[muster.ClusterUIDAnnotation] ||
		was.Labels[muster.RegistrationLabel] != is.Labels[muster.RegistrationLabel] ||
		was.DeletionTimestamp.IsZero() != is.DeletionTimestamp.IsZero() || was.HasAgent() != is.HasAgent()
}

// concerns reports whether the answer to a registration may depend on a cluster. A
// cluster that has lost its client ID may be another one's only rival.
func (c *Controller) concerns(r *musterv1alpha1.ClusterRegistration, mc client.Object) bool {
	if meta.IsStatusConditionTrue(r.Status.Conditions, muster.ConditionRegistered) {
		return r.Status.ClusterName == mc.GetName()
	}
	return true
}

// madeWith reports whether a registration was made with the token in a Secret, and
// has no final answer yet.
func madeWith(r *musterv1alpha1.ClusterRegistration, secret client.Object) bool {
	return r.Spec.Token != "" && secret.GetName() == cluster.TokenSecretPrefix+r.Spec.Token &&
		!meta.IsStatusConditionTrue(r.Status.Conditions, muster.ConditionRegistered)
}

// isRegistered reports whether a cluster was created for a registration.
func isRegistered(mc *clusterv1.ManagedCluster) bool {
	return mc.Labels[muster.RegistrationLabel] != ""
}
