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
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/watch"
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
	return is.Spec.AcceptsClient() && (!was.Spec.AcceptsClient() ||
		was.Annotations[muster.ClientIDAnnotation] != is.Annotations[muster.ClientIDAnnotation])
}

// permits selects the Secrets of tokens that let a cluster join again, and of those
// that are for certain client IDs.
func permits(s *corev1.Secret) bool {
	return s.Annotations[cluster.RejoinAnnotation] != "" || s.Annotations[cluster.TokenClientIDsAnnotation] != ""
}

func permitsAnother(was, is *corev1.Secret) bool {
	for _, key := range []string{cluster.RejoinAnnotation, cluster.TokenClientIDsAnnotation, cluster.TokenUsedByAnnotation} {
		if was.Annotations[key] != is.Annotations[key] {
			return true
		}
	}
	return false
}

// requestsOf are the undecided requests of a ManagedCluster.
func (c *Controller) requestsOf(ctx context.Context, mc client.Object) []reconcile.Request {
	return c.undecided(ctx, mc.GetName())
}

// requestsOfToken are the undecided requests of the cluster that a token's Secret
// lets join again, and of those that have registered with a token for certain
// client IDs.
func (c *Controller) requestsOfToken(ctx context.Context, secret client.Object) []reconcile.Request {
	annotations := secret.GetAnnotations()
	out := c.undecided(ctx, annotations[cluster.RejoinAnnotation])
	if annotations[cluster.TokenClientIDsAnnotation] == "" {
		return out
	}
	scope, err := cluster.ParseTokenScope(annotations)
	if err != nil {
		return out
	}
	for _, name := range scope.UsedBy {
		out = append(out, c.undecided(ctx, name)...)
	}
	return out
}

// undecided are the undecided requests of the cluster of this name.
func (c *Controller) undecided(ctx context.Context, name string) []reconcile.Request {
	open := func(r *certificatesv1.CertificateSigningRequest) bool { return !decided(r) }
	return watch.Matching(ctx, c.client, &certificatesv1.CertificateSigningRequestList{}, open, client.MatchingLabels{cluster.NameLabel: name})
}
