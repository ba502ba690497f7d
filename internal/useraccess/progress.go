package useraccess

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// State is what has become of a request.
type State int

// What has become of a request.
const (
	// Waiting is for the hub or for the cluster's agent.
	Waiting State = iota
	// Issued says that there is a certificate or a token.
	Issued
	// Refused says that there will be none.
	Refused
)

// grace is how long a refusal for want of a grant or a cluster may still turn: the
// cloud may have been made a moment ago.
const grace = 20 * time.Second

// Progress says what has become of a request, in a state and in words: what it waits
// for, or why there will be nothing and what to do about it.
func Progress(request *v1alpha1.AccessRequest, now time.Time) (state State, text string) {
	find := func(kind string) *metav1.Condition { return meta.FindStatusCondition(request.Status.Conditions, kind) }
	is := func(c *metav1.Condition, status metav1.ConditionStatus) bool { return c != nil && c.Status == status }
	approved, issued, failed := find(muster.ConditionApproved), find(muster.ConditionIssued), find(muster.ConditionFailed)
	switch {
	case request.DeletionTimestamp != nil:
		return Refused, "the request is being deleted, so access is withdrawn"
	case is(find(muster.ConditionRevoked), metav1.ConditionTrue):
		return Refused, "access was withdrawn"
	case is(find(muster.ConditionExpired), metav1.ConditionTrue):
		return Refused, "access has ended; ask for it again"
	case is(failed, metav1.ConditionTrue) && failed.Reason != muster.ReasonAgentOffline:
		return Refused, explain(failed)
	case is(approved, metav1.ConditionFalse) && (lasting(approved.Reason) || now.Sub(request.CreationTimestamp.Time) > grace):
		return Refused, explain(approved)
	case is(issued, metav1.ConditionTrue) && len(request.Status.Certificate)+len(request.Status.SealedToken) > 0:
		return Issued, ""
	case is(failed, metav1.ConditionTrue):
		return Waiting, explain(failed)
	case is(approved, metav1.ConditionFalse):
		return Waiting, explain(approved)
	case issued != nil:
		return Waiting, explain(issued)
	case is(approved, metav1.ConditionTrue):
		return Waiting, "the hub has approved it; the cluster's agent has not answered yet"
	}
	return Waiting, "the hub has not decided yet"
}

// lasting finds the reasons that do not go away by waiting.
func lasting(reason string) bool {
	switch reason {
	case muster.ReasonNotGranted, muster.ReasonClusterNotSelected, muster.ReasonClusterNotAccepted, muster.ReasonAgentOffline:
		return false
	}
	return true
}

// explain is a condition in words, with what to do about it.
func explain(c *metav1.Condition) string {
	text := fmt.Sprintf("%s is %s (%s): %s", c.Type, c.Status, c.Reason, c.Message)
	if remedy := remedy(c.Reason); remedy != "" {
		text += ". " + remedy
	}
	return text
}

func remedy(reason string) string {
	switch reason {
	case muster.ReasonNotGranted:
		return "Have a grant of the logical cloud name the user, or one of the user's groups"
	case muster.ReasonClusterNotSelected:
		return "Choose a cluster that the cloud's placements select"
	case muster.ReasonClusterNotAccepted:
		return "The hub has to accept the cluster first"
	case muster.ReasonKeyRevoked:
		return "Use a new key"
	case muster.ReasonAgentUnable:
		return "The cluster's owner has to start its agent with --user-access"
	case muster.ReasonAgentOffline:
		return "It goes on when the cluster's agent is back"
	case muster.ReasonRefusedByPolicy:
		return "Ask the cluster's owner, who limits access by the config map " + muster.PolicyConfigMap
	case muster.ReasonSignerSilent, muster.ReasonSignerIgnoredLifetime:
		return "Ask for a token instead (mode Token or Auto), if the cloud allows tokens"
	case muster.ReasonNamespaceExists:
		return "The cloud needs another namespace, or existing = \"Adopt\""
	case muster.ReasonAccountNamespaceExists:
		return "Ask the cluster's owner, or for a certificate (mode Certificate) of a cloud that allows no tokens"
	}
	return ""
}
