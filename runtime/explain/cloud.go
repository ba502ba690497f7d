package explain

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	musterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// CloudFacts are what a hub knows of a logical cloud.
type CloudFacts struct {
	Cloud *musterv1alpha1.LogicalCloud
	// Requests are the access requests in the cloud's namespace that are for it.
	Requests []musterv1alpha1.AccessRequest
	Now      time.Time
}

// CloudState says in a sentence how a logical cloud is. It needs nothing but its status.
func CloudState(c *musterv1alpha1.LogicalCloud) (Level, string) {
	what := fmt.Sprintf("The logical cloud %s/%s", c.Namespace, c.Name)
	n := c.Status.Clusters
	ready := meta.FindStatusCondition(c.Status.Conditions, muster.ConditionReady)
	switch {
	case !c.DeletionTimestamp.IsZero():
		return Waiting, what + " is being deleted."
	case len(c.Status.Conditions) == 0:
		return Waiting, what + " has not been looked at by the hub yet."
	case n.Selected == 0:
		return Warning, what + " is in no clusters."
	case n.Failed > 0:
		return Problem, fmt.Sprintf("%s can't get into %d of %s.", what, n.Failed, plural(int(n.Selected), "cluster"))
	case n.Ready < n.Selected || ready != nil && ready.Status != metav1.ConditionTrue:
		return Waiting, fmt.Sprintf("%s is ready in %d of %s.", what, n.Ready, plural(int(n.Selected), "cluster"))
	}
	return OK, fmt.Sprintf("%s is ready in %s.", what, plural(int(n.Selected), "cluster"))
}

// Cloud explains a logical cloud.
func Cloud(f CloudFacts) Explanation {
	c := f.Cloud
	level, state := CloudState(c)
	e := Explanation{Kind: "LogicalCloud", Namespace: c.Namespace, Name: c.Name, Level: level, State: state}
	if !c.DeletionTimestamp.IsZero() {
		cause := Cause{Level: Waiting, Summary: "The hub takes the cloud out of its clusters first.",
			Evidence: append([]string{"asked for at " + ago(c.DeletionTimestamp.Time, f.Now)},
				f.evidence(muster.ConditionDeleting)...)}
		for _, x := range c.Status.Clusters.Failing {
			cause.Evidence = append(cause.Evidence, failing(x))
		}
		cause.Next = []Step{{Do: "see which clusters are not available", Command: "muster status"}}
		e.add(cause)
		return e
	}
	if len(c.Status.Conditions) == 0 {
		e.add(Cause{Level: Waiting, Summary: "The hub does so within a second if its controllers run.",
			Next: []Step{{Do: "if this lasts, see whether the hub is ready", Command: hubReady}}})
	}
	if s := meta.FindStatusCondition(c.Status.Conditions, muster.ConditionSelected); s != nil &&
		s.Status == metav1.ConditionFalse {
		cause := Cause{Level: level, Summary: "Its placements select no clusters, or do not exist.",
			Evidence: []string{says(s, f.Now)}}
		for _, p := range c.Spec.Placements {
			cause.Next = append(cause.Next, Step{Do: "see what the placement selects",
				Command: fmt.Sprintf("muster explain placement %s/%s", c.Namespace, p.Name)})
		}
		e.add(cause)
	}
	e.add(f.clusters()...)
	if a := meta.FindStatusCondition(c.Status.Conditions, muster.ConditionApplied); a != nil &&
		a.Status == metav1.ConditionFalse && a.Reason == muster.ReasonGrantsFailed {
		e.add(Cause{Level: Problem, Summary: "A grant of the cloud can't be given.", Evidence: []string{says(a, f.Now)},
			Next: []Step{{Do: "correct the grant; the roles that there are", Command: "kubectl get accessroles"}}})
	}
	e.add(f.requests()...)
	e.add(f.users()...)
	return e
}

func (f *CloudFacts) evidence(kind string) []string {
	if c := meta.FindStatusCondition(f.Cloud.Status.Conditions, kind); c != nil {
		return []string{says(c, f.Now)}
	}
	return nil
}

func failing(x musterv1alpha1.FailingCluster) string {
	return fmt.Sprintf("%s (%s): %s", x.Name, x.Reason, oneLine(x.Message))
}

// clusters are why the cloud is not in clusters, those with the same reason together.
func (f *CloudFacts) clusters() []Cause {
	var reasons []string
	by := map[string][]musterv1alpha1.FailingCluster{}
	for _, x := range f.Cloud.Status.Clusters.Failing {
		if by[x.Reason] == nil {
			reasons = append(reasons, x.Reason)
		}
		by[x.Reason] = append(by[x.Reason], x)
	}
	var out []Cause
	for _, reason := range reasons {
		list := by[reason]
		var lines []string
		for _, x := range list {
			lines = append(lines, failing(x))
		}
		first := list[0].Name
		c := Cause{Level: Problem, Evidence: firstOf(lines)}
		in := plural(len(list), "cluster")
		look := Step{Do: "see how the first one is", Command: "muster explain cluster " + first}
		work := Step{Do: "see what the agent of the first one says",
			Command: fmt.Sprintf("muster explain work %s/%s", first, muster.CloudWork(f.Cloud.Namespace, f.Cloud.Name))}
		switch reason {
		case muster.ReasonNamespaceExists, muster.ReasonNamespaceTaken, muster.ReasonAccountNamespaceExists:
			c.Summary = fmt.Sprintf("In %s the namespace that the cloud needs belongs to somebody else.", in)
			c.Next = []Step{{Do: "choose another namespace for the cloud, or let it take this one over (existing: " +
				"Adopt), for which its author " +
				"needs the right to adopt it"}}
		case muster.ReasonAgentOffline, muster.ReasonClusterNotAccepted:
			c.Summary, c.Next = fmt.Sprintf("%s away: the hub does not hear from the agent, or does not accept the "+
				"cluster.", isOrAre(len(list), "cluster")), []Step{look}
		case muster.ReasonAgentUnable:
			c.Summary = fmt.Sprintf("The agents of %s do not do user access.", in)
			c.Next = []Step{{Do: "install the agent with user access (in Terraform: user_access of " +
				"muster_klusterlet), or select other clusters"}}
		case muster.ReasonEndpointUnknown:
			c.Summary = fmt.Sprintf("Nobody knows where users reach the API server of %s.", in)
			c.Next = []Step{{Do: "let the agent report it, or say it in the annotation " + muster.EndpointsAnnotation,
				Command: "kubectl edit managedcluster " + first},
				{Do: "where nobody reaches it: start the agent with --tunnels, for muster access proxy"}}
		case muster.ReasonProbing, muster.ReasonApplying, muster.ReasonLeaving:
			c.Level, c.Summary, c.Next = Waiting, fmt.Sprintf("The cloud is on its way into %s.", in), []Step{look,
				work}
		default:
			c.Summary, c.Next = fmt.Sprintf("The cloud can't get into %s.", in), []Step{work, look}
		}
		out = append(out, c)
	}
	return out
}

// state is the condition that says how an access request is.
func requestState(r *musterv1alpha1.AccessRequest) *metav1.Condition {
	for _, kind := range []string{muster.ConditionFailed, muster.ConditionRevoked, muster.ConditionExpired} {
		if c := meta.FindStatusCondition(r.Status.Conditions, kind); c != nil && c.Status == metav1.ConditionTrue {
			return c
		}
	}
	for _, kind := range []string{muster.ConditionIssued, muster.ConditionApproved} {
		if c := meta.FindStatusCondition(r.Status.Conditions, kind); c != nil {
			return c
		}
	}
	return nil
}

func (f *CloudFacts) describe(r *musterv1alpha1.AccessRequest) string {
	out := fmt.Sprintf("%s: %s in %s, asked %s", r.Name, r.Spec.User, r.Spec.ManagedCluster,
		ago(r.CreationTimestamp.Time, f.Now))
	if c := requestState(r); c != nil {
		out += "; " + says(c, f.Now)
	}
	return out
}

// requests are the access requests that are not answered, or failed.
func (f *CloudFacts) requests() []Cause {
	var waiting, failed []string
	cluster := ""
	for i := range f.Requests {
		r := &f.Requests[i]
		switch {
		case meta.IsStatusConditionTrue(r.Status.Conditions, muster.ConditionFailed),
			meta.IsStatusConditionFalse(r.Status.Conditions, muster.ConditionApproved):
			failed = append(failed, f.describe(r))
		case !r.HasEnded() && !meta.IsStatusConditionTrue(r.Status.Conditions, muster.ConditionIssued):
			waiting = append(waiting, f.describe(r))
			cluster = r.Spec.ManagedCluster
		}
	}
	var out []Cause
	if n := len(waiting); n > 0 {
		out = append(out, Cause{Level: Waiting,
			Summary:  fmt.Sprintf("%s answered yet.", isOrAreNot(n, "access request")),
			Evidence: firstOf(waiting),
			Next:     []Step{{Do: "see how the last one's cluster is", Command: "muster explain cluster " + cluster}}})
	}
	if n := len(failed); n > 0 {
		out = append(out, Cause{Level: Warning,
			Summary:  fmt.Sprintf("%s failed or been refused.", hasOrHave(n, "access request")),
			Evidence: firstOf(failed),
			Next: []Step{{Do: "correct the cause and ask again",
				Command: fmt.Sprintf("muster access kubeconfig --cloud %s/%s",
					f.Cloud.Namespace, f.Cloud.Name)}}})
	}
	return out
}

// HasAccess reports whether an access request gives access at a time. It does until its
// status.notAfter.
func HasAccess(r *musterv1alpha1.AccessRequest, now time.Time) bool {
	return !r.HasEnded() && meta.IsStatusConditionTrue(r.Status.Conditions, muster.ConditionIssued) &&
		r.Status.NotAfter != nil && r.Status.NotAfter.After(now)
}

// users are who has access until when.
func (f *CloudFacts) users() []Cause {
	type access struct {
		line  string
		until time.Time
	}
	var has []access
	for i := range f.Requests {
		r := &f.Requests[i]
		if !HasAccess(r, f.Now) {
			continue
		}
		until := r.Status.NotAfter.Time
		has = append(has, access{fmt.Sprintf("%s in %s until %s, in %s (access request %s)", r.Spec.User,
			r.Spec.ManagedCluster,
			until.UTC().Format(time.RFC3339), lasted(until.Sub(f.Now)), r.Name), until})
	}
	if len(has) == 0 {
		return nil
	}
	slices.SortStableFunc(has, func(a, b access) int { return a.until.Compare(b.until) })
	var lines []string
	for _, x := range has {
		lines = append(lines, x.line)
	}
	return []Cause{{Level: OK, Summary: fmt.Sprintf("%s in force.", isOrAre(len(has), "granted access request")),
		Evidence: firstOf(lines),
		Next: []Step{{Do: "withdraw one",
			Command: fmt.Sprintf("muster access revoke %s/REQUEST", f.Cloud.Namespace)}}}}
}

func isOrAreNot(n int, noun string) string { return isOrAre(n, noun) + " not" }
