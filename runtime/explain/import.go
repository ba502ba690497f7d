package explain

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	musterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// ImportState says in a sentence how a cluster import is. It needs nothing but its status.
func ImportState(i *musterv1alpha1.ClusterImport) (Level, string) {
	what := "The import of " + i.Name
	held, reason := importHeld(i)
	switch {
	case !i.DeletionTimestamp.IsZero():
		return Waiting, what + " is being deleted."
	case len(i.Status.Conditions) == 0:
		return Waiting, what + " has not been looked at by the hub yet."
	case held == nil:
		return OK, what + " is done: the agent is installed, and the cluster has joined."
	case reason == muster.ReasonRollingOut:
		return Waiting, what + " waits for the agent to run."
	case reason == muster.ReasonWaitingForAgent:
		return Waiting, what + " waits for the agent to register."
	case reason == muster.ReasonWaitingForApproval:
		return Waiting, what + " waits for the cluster to be accepted."
	case held.Type == muster.ConditionKubeconfigUsable:
		return Problem, what + " can't go on: its kubeconfig can't be used."
	case held.Type == muster.ConditionAgentInstalled:
		return Problem, what + " can't go on: the agent is not installed as asked."
	}
	return Warning, what + " is not done: the cluster has not joined."
}

// importHeld is the condition that an import waits for or fails at, with its reason; nil
// when it is done. A kubeconfig that is forgotten after the join is as it should be.
func importHeld(i *musterv1alpha1.ClusterImport) (held *metav1.Condition, reason string) {
	for _, kind := range []string{muster.ConditionKubeconfigUsable, muster.ConditionAgentInstalled,
		muster.ConditionJoined} {
		c := meta.FindStatusCondition(i.Status.Conditions, kind)
		if c != nil && c.Status != metav1.ConditionTrue && c.Reason != muster.ReasonForgotten {
			return c, c.Reason
		}
	}
	return nil, ""
}

// Import explains a cluster import at a time.
func Import(i *musterv1alpha1.ClusterImport, now time.Time) Explanation {
	level, state := ImportState(i)
	e := Explanation{Kind: "ClusterImport", Name: i.Name, Level: level, State: state}
	if len(i.Status.Conditions) == 0 {
		e.add(Cause{Level: level, Summary: "The hub does so within a second if its controllers run.",
			Next: []Step{{Do: "if this lasts, see whether the hub is ready", Command: hubReady}}})
	}
	if held, _ := importHeld(i); held != nil {
		c := Cause{Level: level, Summary: oneLine(held.Message), Evidence: []string{says(held, now)}}
		switch held.Type {
		case muster.ConditionKubeconfigUsable:
			c.Next = []Step{{Do: "correct the kubeconfig in its Secret (in Terraform: of its muster_cluster_import)",
				Command: "kubectl -n " + muster.ImportNamespace + " edit secret " + i.Spec.KubeconfigSecret}}
		case muster.ConditionAgentInstalled:
			c.Next = lookAtAgent(i.Name)
		default:
			c.Next = []Step{{Do: "see how the cluster is", Command: "muster explain cluster " + i.Name}}
		}
		e.add(c)
	}
	drifted := meta.FindStatusCondition(i.Status.Conditions, muster.ConditionDrifted)
	if drifted != nil && drifted.Reason == muster.ReasonRepaired {
		e.add(Cause{Level: Warning, Summary: "Somebody has changed the agent's objects, and the hub has restored them.",
			Evidence: []string{says(drifted, now)}})
	}
	if level == OK {
		e.add(Cause{Level: OK, Summary: "The cluster is looked after by its agent from now on.",
			Next: []Step{{Do: "see how the cluster is", Command: "muster explain cluster " + i.Name}}})
	}
	return e
}
