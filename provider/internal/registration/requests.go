package registration

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
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
