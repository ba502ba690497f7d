package hub

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
)

// What hubs need to serve kinds that not all of them have.
const (
	AccessNeeds = "Logical clouds, access roles and access requests need a muster hub with the feature gate " +
		"UserAccess, which is on by default."
	ImportNeeds = "Cluster imports need a muster hub with the feature gate ClusterImport, which is off by default: " +
		"start it with muster hub --feature-gates ClusterImport=true. An upstream hub has none."
)

// AddAPIError explains why a request failed and what to do about it. doing is
// what was being done to what: `apply managed cluster "c1"`.
func AddAPIError(diags *diag.Diagnostics, client *kube.Client, doing string, err error) {
	var refusal *RefusalError
	if errors.As(err, &refusal) {
		diags.AddError(refusal.Summary, refusal.Detail)
		return
	}
	diags.AddError("Cannot "+doing, Explain(client.Host(), doing, err))
}

// Explain says what failed, why, and what to do about it.
func Explain(host, doing string, err error) string {
	why := strings.TrimSuffix(err.Error(), ".")
	if errors.Is(err, context.Canceled) {
		why = "Terraform was interrupted"
	}
	detail := fmt.Sprintf("Could not %s on %s: %s.", doing, host, why)
	if remedy := remedy(host, err); remedy != "" {
		detail += "\n\n" + remedy
	}
	return detail
}

// ExplainDryRun is Explain for what an apply would get as the answer.
func ExplainDryRun(host, doing string, err error) string {
	detail := fmt.Sprintf("The hub %s was asked what would come of the apply, and would not %s: %s.", host, doing,
		strings.TrimSuffix(err.Error(),
			"."))
	if remedy := remedy(host, err); remedy != "" {
		detail += "\n\n" + remedy
	}
	return detail
}

func remedy(host string, err error) string {
	if conflicts := kube.Conflicts(err); len(conflicts) > 0 {
		return "Another field manager owns what the configuration sets:\n" + ListConflicts(conflicts) +
			"\n\nLeave these fields to their owner by removing them from the configuration, or take them over with " +
			"force_conflicts = true."
	}
	var program *kube.CredentialError
	switch {
	case errors.Is(err, context.Canceled):
		return "Apply again to continue."
	case errors.As(err, &program):
		return fmt.Sprintf("The program %q gets the credentials. Run it by hand, as the same user and with the same "+
			"environment, to see what it lacks: often a new login.", program.Program)
	case apierrors.IsUnauthorized(err):
		return "The server does not know these credentials. They may have expired: renew the token, certificate or " +
			"kubeconfig."
	case apierrors.IsForbidden(err):
		if right := missingRight(err.Error()); right != "" {
			return "The hub knows who is asking but does not allow it. Let a cluster role with this rule be bound to " +
				"the identity, or use another one: " + right
		}
		return "The server knows who is asking but does not allow it. Let a cluster role that grants this be bound " +
			"to the identity, or use another one."
	case kube.IsMissingNamespace(err):
		return "Create the namespace on the hub first: with the resource muster_namespace, whose attribute name this " +
			"one should refer to, or with kubectl create namespace."
	case kube.IsKindNotServed(err):
		return "The server does not serve this kind, so it is probably not a hub. Check the connection with: kubectl " +
			"--server " + host + " api-resources --api-group=cluster.open-cluster-management.io" +
			needs(kube.UnservedResource(err))
	case apierrors.IsConflict(err):
		return "The object changed at the same moment. Apply again."
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return "Correct the named fields in the configuration."
	case errors.Is(err, context.DeadlineExceeded) && !kube.IsUnanswered(err):
		return "The server took too long. Check its health, or raise the timeout."
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return "Check that the server runs and that its address, certificate authority and proxy in the " +
			"configuration are right."
	}
	return ""
}

// needs is what a hub has to have to serve a resource, on a line of its own; empty for
// those that all hubs serve.
func needs(resource string) string {
	switch resource {
	case "logicalclouds", "accessroles", "accessrequests":
		return "\n" + AccessNeeds
	case "clusterimports":
		return "\n" + ImportNeeds
	}
	return ""
}

// ListConflicts lists fields with their owners, one on a line.
func ListConflicts(conflicts []kube.Conflict) string {
	lines := make([]string, 0, len(conflicts))
	for _, c := range conflicts {
		lines = append(lines, "  - "+c.String())
	}
	return attribute.JoinLines(lines)
}

// missingRight is the rule that allows what the hub's admission has refused. The
// refusal itself does not name it.
func missingRight(refusal string) string {
	switch {
	case strings.Contains(refusal, cluster.RefusedAcceptance):
		return "the verb update on managedclusters/accept in the API group " + cluster.RegisterGroupName + "."
	case strings.Contains(refusal, cluster.RefusedSetMembership):
		return "the verb create on managedclustersets/join in the API group " + cluster.GroupName + ", for the set " +
			"that the cluster leaves and for the one that it enters."
	case strings.Contains(refusal, cluster.RefusedSetBinding):
		return "the verb create on managedclustersets/bind in the API group " + cluster.GroupName + ", for the set."
	case strings.Contains(refusal, work.RefusedExecutor):
		return "the verb execute-as on manifestworks in the API group " + work.GroupName + ", in the cluster's " +
			"namespace, with the resource name system:serviceaccount:<namespace>:<name> of the executor."
	}
	return ""
}

// DescribeConditions lists every condition with its status, reason, age and
// message, for a timeout's diagnostic.
func DescribeConditions(conditions []metav1.Condition, now time.Time) string {
	if len(conditions) == 0 {
		return "  (no conditions: no controller or agent has reported anything yet)"
	}
	var lines []string
	for _, c := range conditions {
		lines = append(lines, "  "+DescribeCondition(c, now))
	}
	return attribute.JoinLines(lines)
}

// DescribeCondition says what a condition is and why, and for how long, unless now is
// zero.
func DescribeCondition(c metav1.Condition, now time.Time) string {
	age := ""
	if !now.IsZero() && !c.LastTransitionTime.IsZero() {
		age = ", for " + duration.HumanDuration(now.Sub(c.LastTransitionTime.Time))
	}
	return fmt.Sprintf("%s is %s (%s%s): %s", c.Type, c.Status, c.Reason, age, c.Message)
}

// IsTimeout reports whether err is that of a wait whose time is up.
func IsTimeout(err error) bool { return errors.Is(err, context.DeadlineExceeded) }

// ReadBudget is how long a server that is away may hold up what needs no answer:
// a refresh, or the details of a message.
const ReadBudget = 5 * time.Second

// RefusalError is a refusal to take an object over, in words.
type RefusalError struct {
	Err             error
	Summary, Detail string
}

// Error implements error.
func (e *RefusalError) Error() string { return e.Err.Error() }

// Unwrap is the refusal itself.
func (e *RefusalError) Unwrap() error { return e.Err }

// missingRequestRight is how a server refuses a request that the identity may not
// make at all. Admission, which reads what is written, says other things.
var missingRequestRight = regexp.MustCompile(`cannot \S+ resource "`)

// IsMissingRight reports whether the identity may not make the request, whatever
// it writes.
func IsMissingRight(err error) bool {
	return apierrors.IsForbidden(err) && missingRequestRight.MatchString(err.Error())
}

// RefusesForGood reports whether the answer to a dry run is that of the apply, too.
// A missing right may be that of the identity that plans, a missing namespace or
// object may be created by the same apply, and a webhook may not take dry runs.
func RefusesForGood(err error) bool {
	switch {
	case namesWhatIsMissing(err):
		return false // the same apply may create it
	case len(kube.Conflicts(err)) > 0, apierrors.IsInvalid(err), apierrors.IsRequestEntityTooLargeError(err):
		return true
	case apierrors.IsBadRequest(err):
		return !strings.Contains(err.Error(), "does not support dry run")
	case apierrors.IsForbidden(err):
		return !IsMissingRight(err) && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) &&
			!strings.Contains(err.Error(), "is terminating") && !strings.Contains(err.Error(), "exceeded quota")
	}
	return false
}

// namesWhatIsMissing reports whether a refusal says nothing but that objects are
// missing which fields name.
func namesWhatIsMissing(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil ||
		len(status.Status().Details.Causes) == 0 {
		return false
	}
	for _, cause := range status.Status().Details.Causes {
		if cause.Type != metav1.CauseTypeFieldValueNotFound {
			return false
		}
	}
	return true
}
