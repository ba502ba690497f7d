package provider

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// Who may ask for a cluster's first certificate: the same as for clusteradm.
const (
	bootstrapTokenUser   = "system:bootstrap:"
	bootstrapAccountUser = cluster.BootstrapUser
	grpcAccountUser      = "system:serviceaccount:" + cluster.HubNamespace + ":grpc-server-sa"
)

// verdict is what is to be done about a certificate request.
type verdict int

const (
	ignored  verdict = iota // not this cluster's, or for another purpose
	pending                 // to be approved
	approved                // nothing left to do
	foreign                 // of a requester that is not allowed
	denied                  // somebody said no
)

// judge decides about one request. requesters are allowed user names beside the
// bootstrap identities.
func judge(request *certificatesv1.CertificateSigningRequest, name string, requesters []string) verdict {
	identity, err := cluster.ParseRequest(request.Labels, request.Spec.SignerName, request.Spec.Request)
	if err != nil || identity.Cluster != name || request.Labels[cluster.AddOnNameLabel] != "" {
		return ignored
	}
	for _, condition := range request.Status.Conditions {
		switch condition.Type {
		case certificatesv1.CertificateApproved:
			return approved
		case certificatesv1.CertificateDenied, certificatesv1.CertificateFailed:
			return denied
		}
	}
	if allowedRequester(request, name, requesters) {
		return pending
	}
	return foreign
}

func allowedRequester(request *certificatesv1.CertificateSigningRequest, name string, requesters []string) bool {
	user, groups := request.Spec.Username, request.Spec.Groups
	if slices.Contains(requesters, user) {
		return true
	}
	hasGroup := func(allowed ...string) bool {
		return slices.ContainsFunc(allowed, func(g string) bool { return slices.Contains(groups, g) })
	}
	switch {
	case strings.HasPrefix(user, bootstrapTokenUser):
		return hasGroup(cluster.BootstrapGroup, cluster.BoundBootstrapGroup(name))
	case user == bootstrapAccountUser:
		return hasGroup("system:serviceaccounts:" + cluster.Namespace)
	case user == grpcAccountUser:
		return hasGroup("system:serviceaccounts:" + cluster.HubNamespace)
	}
	return false
}

// approveRequests waits for the cluster's first certificate request and
// approves it.
func approveRequests(ctx context.Context, client *kube.Client, name string, requesters []string, timeout time.Duration, diags *diag.Diagnostics) {
	requests := &certificatesv1.CertificateSigningRequestList{}
	options := kube.ListOptions{LabelSelector: cluster.NameLabel + "=" + name}
	err := client.WaitList(ctx, requests, &certificatesv1.CertificateSigningRequest{}, options, func() (bool, error) {
		done := false
		for i := range requests.Items {
			request := &requests.Items[i]
			switch judge(request, name, requesters) {
			case approved:
				done = true
			case pending:
				if err := approve(ctx, client, request); apierrors.IsConflict(err) {
					return false, nil // it changed: the watch brings it again
				} else if err != nil {
					return false, fmt.Errorf("approving certificate request %s: %w", request.Name, err)
				}
				done = true
			}
		}
		return done, nil
	})
	switch {
	case err == nil:
	case isTimeout(err):
		diags.AddError(fmt.Sprintf("No certificate request of managed cluster %q to approve", name),
			fmt.Sprintf("The cluster is accepted, but within %s no certificate request came that may be approved.\n%s\n\n"+
				"Check that the agent is installed in the cluster and can reach the hub. Next:\n  kubectl get csr -l %s=%s\n"+
				"To accept without waiting for the agent, set approve_csr = false.",
				timeout, describeRequests(requests.Items, name, requesters), cluster.NameLabel, name))
	default:
		addAPIError(diags, client, fmt.Sprintf("approve the certificate request of managed cluster %q", name), err)
	}
}

func approve(ctx context.Context, client *kube.Client, request *certificatesv1.CertificateSigningRequest) error {
	request = request.DeepCopy()
	request.Status.Conditions = append(request.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type:           certificatesv1.CertificateApproved,
		Status:         corev1.ConditionTrue,
		Reason:         "TerraformApprove",
		Message:        "Approved by muster_cluster_acceptance.",
		LastUpdateTime: metav1.Now(),
	})
	return client.UpdateSubresource(ctx, request, "approval", acceptanceManager)
}

func describeRequests(requests []certificatesv1.CertificateSigningRequest, name string, requesters []string) string {
	if len(requests) == 0 {
		return "There is none at all."
	}
	lines := []string{"What there is:"}
	for i := range requests {
		request := &requests[i]
		switch judge(request, name, requesters) {
		case foreign:
			lines = append(lines, fmt.Sprintf("  %s is from %q, who is not a bootstrap identity; to allow it, add it to requesters", request.Name, request.Spec.Username))
		case denied:
			lines = append(lines, fmt.Sprintf("  %s was denied or failed; delete it, so that the agent asks again", request.Name))
		default:
			lines = append(lines, fmt.Sprintf("  %s does not ask for an agent of this cluster", request.Name))
		}
	}
	return joinLines(lines)
}
