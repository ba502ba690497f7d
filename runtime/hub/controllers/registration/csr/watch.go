package csr

import (
	"context"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/enqueue"
)

// concerned selects requests that nobody has decided about, and those of agents
// that an administrator has let in.
func concerned(r *certificatesv1.CertificateSigningRequest) bool {
	_, byOthers := letIn(r)
	return r.Spec.SignerName == certificatesv1.KubeAPIServerClientSignerName && (!decided(r) || byOthers)
}

func decided(r *certificatesv1.CertificateSigningRequest) bool {
	return slices.ContainsFunc(r.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
		return c.Type == certificatesv1.CertificateApproved || c.Type == certificatesv1.CertificateDenied
	})
}

func wasAccepted(was, is *clusterv1.ManagedCluster) bool {
	return is.Spec.AcceptsClient() && !was.Spec.AcceptsClient()
}

// permits selects the Secrets of tokens that let a cluster join again.
func permits(s *corev1.Secret) bool { return s.Annotations[cluster.RejoinAnnotation] != "" }

func permitsAnother(was, is *corev1.Secret) bool {
	return was.Annotations[cluster.RejoinAnnotation] != is.Annotations[cluster.RejoinAnnotation]
}

// requestsOf are the undecided requests of a ManagedCluster.
func (c *Controller) requestsOf(ctx context.Context, mc client.Object) []reconcile.Request {
	return c.undecided(ctx, mc.GetName())
}

// requestsOfToken are the undecided requests of the cluster that a token's
// Secret lets join again.
func (c *Controller) requestsOfToken(ctx context.Context, secret client.Object) []reconcile.Request {
	return c.undecided(ctx, secret.GetAnnotations()[cluster.RejoinAnnotation])
}

// undecided are the undecided requests of the cluster of this name.
func (c *Controller) undecided(ctx context.Context, name string) []reconcile.Request {
	open := func(r *certificatesv1.CertificateSigningRequest) bool { return !decided(r) }
	return enqueue.Matching(ctx, c.client, &certificatesv1.CertificateSigningRequestList{}, open, client.MatchingLabels{cluster.NameLabel: name})
}
