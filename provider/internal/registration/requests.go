package registration

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/types"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// RequestsOf selects the certificate requests of a cluster's agents.
func RequestsOf(name string) kube.ListOptions {
	return kube.ListOptions{LabelSelector: cluster.NameLabel + "=" + name + ",!" + cluster.AddOnNameLabel}
}

// DescribeJoining says what the hub knows about a cluster that has not joined:
// its conditions, its certificate requests that are not approved, and what the
// hub says about these in events. It takes a few seconds at the most, and what
// can't be read is left out.
func DescribeJoining(ctx context.Context, client *kube.Client, name string) []string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hub.ReadBudget)
	defer cancel()
	now := time.Now()
	object := &clusterv1.ManagedCluster{}
	lines := []string{fmt.Sprintf("The hub's state of the cluster %q:", name)}
	switch err := client.Get(ctx, object, "", name); {
	case kube.IsNotFound(err, name):
		lines = append(lines, "  it has no such ManagedCluster")
	case err != nil:
		return []string{fmt.Sprintf("What the hub %s says of the cluster can't be read: %s", client.Host(), err)}
	case !object.Spec.AcceptsClient():
		lines = append(lines, "  it is not accepted: hubAcceptsClient is not true")
		fallthrough
	default:
		lines = append(lines, hub.DescribeConditions(object.Status.Conditions, now))
	}
	return append(lines, DescribeWaitingRequests(ctx, client, name, now)...)
}

// DescribeWaitingRequests lists requests that are not approved, newest first.
func DescribeWaitingRequests(ctx context.Context, client *kube.Client, name string, now time.Time) []string {
	const shown = 5
	waiting, err := requestsJudged(ctx, client, name, ignored, pending, foreign, denied)
	if err != nil {
		return []string{"Its certificate requests can't be read: " + err.Error()}
	}
	if len(waiting) == 0 {
		return []string{"No certificate request of it waits: its agent has made none, or has its certificate."}
	}
	slices.SortFunc(waiting, func(a, b certificatesv1.CertificateSigningRequest) int {
		return b.CreationTimestamp.Compare(a.CreationTimestamp.Time)
	})
	lines := []string{"Certificate requests that are not approved:"}
	for i := range waiting[:min(len(waiting), shown)] {
		lines = append(lines, "  "+describeRequest(&waiting[i], now))
		for _, said := range eventsOf(ctx, client, waiting[i].Name) {
			lines = append(lines, "    "+said)
		}
	}
	if more := len(waiting) - shown; more > 0 {
		lines = append(lines, fmt.Sprintf("  and %d older ones", more))
	}
	return lines
}

// PendingRequests are the names of a cluster's certificate requests that nobody
// has decided about, in alphabetical order.
func PendingRequests(ctx context.Context, client *kube.Client, name string) ([]string, error) {
	requests, err := requestsJudged(ctx, client, name, pending, foreign)
	var names []string
	for i := range requests {
		names = append(names, requests[i].Name)
	}
	return attribute.Sorted(names), err
}

// requestsJudged are a cluster's certificate requests that are one of these.
func requestsJudged(
	ctx context.Context, client *kube.Client, name string, verdicts ...verdict,
) ([]certificatesv1.CertificateSigningRequest, error) {
	requests := &certificatesv1.CertificateSigningRequestList{}
	err := client.List(ctx, requests, RequestsOf(name))
	return slices.DeleteFunc(requests.Items, func(r certificatesv1.CertificateSigningRequest) bool {
		return !slices.Contains(verdicts, judge(&r, name, nil))
	}), err
}

// describeRequest describes a request so that it can be distinguished from others.
func describeRequest(request *certificatesv1.CertificateSigningRequest, now time.Time) string {
	agent := "no agent of this cluster"
	identity, err := cluster.ParseRequest(request.Labels, request.Spec.SignerName, request.Spec.Request)
	if err == nil {
		agent = "agent " + identity.Agent
	}
	text := fmt.Sprintf("%s by %s, for %s, request %s, made %s ago", request.Name, request.Spec.Username, agent,
		requestHash(request), duration.HumanDuration(now.Sub(request.CreationTimestamp.Time)))
	for _, c := range request.Status.Conditions {
		if c.Type != certificatesv1.CertificateApproved {
			text += fmt.Sprintf(", %s (%s): %s", c.Type, c.Reason, c.Message)
		}
	}
	return text
}

// requestHash is the beginning of the hash of what is to be signed: it is
// another one for another key.
func requestHash(request *certificatesv1.CertificateSigningRequest) string {
	content := request.Spec.Request
	if block, _ := pem.Decode(content); block != nil {
		content = block.Bytes
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:6])
}

// eventsOf are the last things that were said about a certificate request.
func eventsOf(ctx context.Context, client *kube.Client, request string) []string {
	events := &corev1.EventList{}
	err := client.List(ctx, events, kube.ListOptions{
		Namespace:     metav1.NamespaceDefault,
		FieldSelector: "involvedObject.kind=CertificateSigningRequest,involvedObject.name=" + request,
	})
	if err != nil {
		return nil
	}
	var said []string
	for _, e := range events.Items {
		said = append(said, e.Reason+": "+e.Message)
	}
	return slices.Compact(attribute.Sorted(said))
}

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
// approves it. With a name only that request will do.
func approveRequests(ctx context.Context, c *acceptance) {
	client, name, only := c.Client, c.Keys[0], c.Plan.Text("approve_csr_name")
	list, _ := c.Plan["requesters"].(types.List)
	requesters := attribute.StringList(list)
	requests, of := &certificatesv1.CertificateSigningRequestList{}, &certificatesv1.CertificateSigningRequest{}
	err := client.WaitList(ctx, requests, of, RequestsOf(name), func() (bool, error) {
		return ApproveOne(ctx, client, requests.Items, name, requesters, only, "Approved by muster_cluster_acceptance.")
	})
	var several severalRequestsError
	switch {
	case err == nil:
	case errors.As(err, &several):
		c.Diagnostics.AddError(fmt.Sprintf("Several certificate requests of managed cluster %q wait", name),
			fmt.Sprintf("The cluster is accepted, and only one agent may join, but there are %d requests, of "+
				"different keys or requesters:\n%s\n\n"+
				"Anyone with a bootstrap credential can create one, so find out which one is the agent's; its log "+
				"names it:\n  kubectl -n %s logs deployment/klusterlet-agent    # in the managed cluster\n"+
				"Then set approve_csr_name to its name, or decide on the hub and apply again:\n  kubectl certificate "+
				"approve NAME\n  kubectl certificate deny NAME    # the others",
				len(several), attribute.JoinLines(several), cluster.AgentNamespace))
	case hub.IsTimeout(err):
		c.Diagnostics.AddError(fmt.Sprintf("No certificate request of managed cluster %q to approve", name),
			fmt.Sprintf("The cluster is accepted, but within %s no certificate request came that may be "+
				"approved.\n%s\n%s\n\nCheck that the agent is installed in the cluster and can reach the hub. Next:\n"+
				"  kubectl get csr -l %s=%s\nTo accept without waiting for the agent, set approve_csr = false.",
				c.Timeout, describeRequests(requests.Items, name, requesters),
				attribute.JoinLines(DescribeJoining(ctx, client, name)), cluster.NameLabel, name))
	default:
		doing := fmt.Sprintf("approve the certificate request of managed cluster %q", name)
		hub.AddAPIError(c.Diagnostics, client, doing, err)
	}
}

// severalRequestsError describes several requests, where it is unclear which one is
// to be approved.
type severalRequestsError []string

func (e severalRequestsError) Error() string {
	return fmt.Sprintf("%d certificate requests wait", len(e))
}

// chosen picks the one request that may be approved. It is nil when there is
// none yet; done is true when one is approved already. With a name only that
// request will do. Several requests that differ are a severalRequestsError.
func chosen(
	requests []certificatesv1.CertificateSigningRequest, name string, requesters []string, only string, now time.Time,
) (one *certificatesv1.CertificateSigningRequest, done bool, err error) {
	var waiting []*certificatesv1.CertificateSigningRequest
	for i := range requests {
		request := &requests[i]
		if only != "" && request.Name != only {
			continue
		}
		switch judge(request, name, requesters) {
		case approved:
			done = true
		case pending:
			waiting = append(waiting, request)
		}
	}
	if done || len(waiting) == 0 {
		return nil, done, nil
	}
	var several severalRequestsError
	differ := false
	for _, request := range waiting {
		several = append(several, "  "+describeRequest(request, now))
		differ = differ || requestHash(request) != requestHash(waiting[0]) ||
			request.Spec.Username != waiting[0].Spec.Username
	}
	if differ {
		return nil, false, several
	}
	return waiting[0], false, nil
}

// ApproveOne approves the one request that may be, if it is there.
func ApproveOne(
	ctx context.Context, client *kube.Client, requests []certificatesv1.CertificateSigningRequest,
	name string, requesters []string, only, message string,
) (done bool, err error) {
	request, done, err := chosen(requests, name, requesters, only, time.Now())
	if err != nil || request == nil {
		return done, err
	}
	request = request.DeepCopy()
	request.Status.Conditions = append(request.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type:           certificatesv1.CertificateApproved,
		Status:         corev1.ConditionTrue,
		Reason:         "TerraformApprove",
		Message:        message,
		LastUpdateTime: metav1.Now(),
	})
	err = client.UpdateSubresource(ctx, request, "approval", hub.AcceptanceManager)
	if apierrors.IsConflict(err) {
		return false, nil // it changed: the watch brings it again
	}
	if err != nil {
		return false, fmt.Errorf("approving certificate request %s: %w", request.Name, err)
	}
	return true, nil
}

func describeRequests(requests []certificatesv1.CertificateSigningRequest, name string, requesters []string) string {
	if len(requests) == 0 {
		return "There is none at all."
	}
	lines := []string{"What there is:"}
	for i := range requests {
		said := "does not ask for an agent of this cluster"
		switch judge(&requests[i], name, requesters) {
		case foreign:
			said = fmt.Sprintf("is from %q, who is not a bootstrap identity; to allow it, add it to requesters",
				requests[i].Spec.Username)
		case denied:
			said = "was denied or failed; delete it, so that the agent asks again"
		}
		lines = append(lines, "  "+requests[i].Name+" "+said)
	}
	return attribute.JoinLines(lines)
}
