package accessrequest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/runtime/access"
	"github.com/muster-fleet/terraform-provider-muster/runtime/access/cloud"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/limits"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

const (
	// patience is how long a request waits for what it needs.
	patience = 24 * time.Hour
	// retention is how long the record of a request is kept that has ended.
	retention = 30 * 24 * time.Hour
)

// facts are all that a pass decides from. Nobody may change the objects in it.
type facts struct {
	now     time.Time
	hubID   string
	request *v1alpha1.AccessRequest
	// cloud, cluster, work and credential are nil when there are none.
	cloud   *v1alpha1.LogicalCloud
	cluster *clusterv1.ManagedCluster
	// selected says that placements of the cloud select the cluster, and settled
	// that they are not about to.
	selected, settled bool
	work              *workv1.ManifestWork
	credential        *v1alpha1.ClusterCredential
	// shared says that another request with the same key has access to the cluster.
	shared bool
	// heartbeat is when the cluster's agent was last heard of.
	heartbeat string
}

// outcome is what to do about a request.
type outcome struct {
	status v1alpha1.AccessRequestStatus
	// ask makes the credential that the agent answers, and drop deletes it.
	ask, drop bool
	// recheck is when time alone changes something; 0 is never.
	recheck time.Duration
	// over says that the record can go.
	over   bool
	events []note
}

// note is an event about a decision.
type note struct{ kind, reason, action, message string }

func (o *outcome) record(kind, reason, action, message string) {
	o.events = append(o.events, note{kind, reason, action, message})
}

// is reports whether a condition is True.
func (o *outcome) is(kind string) bool { return meta.IsStatusConditionTrue(o.status.Conditions, kind) }

// set sets a condition, and reports whether its status or reason is new.
func (o *outcome) set(now time.Time, kind string, status metav1.ConditionStatus, reason, message string) (news bool) {
	before := meta.FindStatusCondition(o.status.Conditions, kind)
	news = before == nil || before.Status != status || before.Reason != reason
	meta.SetStatusCondition(&o.status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: text.Cut(message, limits.AccessMessage),
		LastTransitionTime: metav1.NewTime(now),
	})
	return news
}

// decide finds what becomes of a request that is not being deleted.
func decide(f *facts) *outcome {
	o := &outcome{status: *f.request.Status.DeepCopy()}
	switch {
	case o.is(muster.ConditionExpired) || o.is(muster.ConditionRevoked) || o.is(muster.ConditionFailed):
		o.keepRecord(f)
	case meta.FindStatusCondition(o.status.Conditions, muster.ConditionRevoked) != nil:
		o.withdraw(f)
	case o.is(muster.ConditionIssued):
		o.hold(f)
	default:
		o.wait(f)
	}
	return o
}

// keepRecord keeps what is left of a request for a time, without what it gave.
func (o *outcome) keepRecord(f *facts) {
	o.drop = f.credential != nil
	o.status.Certificate, o.status.SealedToken, o.status.Endpoints = nil, nil, nil
	var ended time.Time
	for _, kind := range []string{muster.ConditionExpired, muster.ConditionRevoked, muster.ConditionFailed} {
		if c := meta.FindStatusCondition(o.status.Conditions, kind); c != nil && c.Status == metav1.ConditionTrue && c.LastTransitionTime.After(ended) {
			ended = c.LastTransitionTime.Time
		}
	}
	o.recheck = ended.Add(retention).Sub(f.now)
	o.over = o.recheck <= 0
}

// hold looks after a request that has access.
func (o *outcome) hold(f *facts) {
	if o.expire(f) {
		return
	}
	if reason, why := refusal(f); reason != "" {
		o.set(f.now, muster.ConditionApproved, metav1.ConditionFalse, reason, why)
		o.withdraw(f)
		return
	}
	if failed := takenBack(f.credential); failed != nil {
		o.set(f.now, muster.ConditionApproved, metav1.ConditionFalse, failed.Reason, "the cluster's agent says: "+failed.Message)
		o.withdraw(f)
		return
	}
	o.replace(f)
	o.recheck = o.status.NotAfter.Sub(f.now)
	o.status.Endpoints, _ = access.Endpoints(f.cluster)
}

// takenBack says why the cluster has taken back what it had issued, or nil: the
// cluster's owner may change the policy at any time. The rights are the hub's to
// withdraw.
func takenBack(c *v1alpha1.ClusterCredential) *metav1.Condition {
	if c == nil {
		return nil
	}
	if failed := meta.FindStatusCondition(c.Status.Conditions, muster.ConditionFailed); failed != nil && failed.Status == metav1.ConditionTrue {
		return failed
	}
	return nil
}

// expire ends access whose time is over.
func (o *outcome) expire(f *facts) bool {
	if o.status.NotAfter == nil || f.now.Before(o.status.NotAfter.Time) {
		return false
	}
	o.set(f.now, muster.ConditionExpired, metav1.ConditionTrue, muster.ReasonEnded, "access has ended at "+stamp(o.status.NotAfter.Time)+"; to go on, create another request")
	o.set(f.now, muster.ConditionIssued, metav1.ConditionFalse, muster.ReasonEnded, "access has ended")
	o.record(corev1.EventTypeNormal, muster.ConditionExpired, "Expire", "access has ended")
	o.keepRecord(f)
	return true
}

// withdraw takes access back. Approved is False by then, so the cloud's work is
// rendered without the key, and the agent has to apply that.
func (o *outcome) withdraw(f *facts) {
	o.drop = f.credential != nil
	o.status.Certificate, o.status.SealedToken, o.status.Endpoints = nil, nil, nil
	if o.expire(f) {
		return
	}
	why := "the user has no access any more"
	reason := muster.ReasonWithdrawing
	if c := meta.FindStatusCondition(o.status.Conditions, muster.ConditionApproved); c != nil && c.Status == metav1.ConditionFalse {
		why, reason = c.Message, c.Reason
	}
	o.set(f.now, muster.ConditionIssued, metav1.ConditionFalse, reason, why)
	if f.withdrawn() {
		o.set(f.now, muster.ConditionRevoked, metav1.ConditionTrue, reason, "the rights are withdrawn in the cluster: "+why)
		o.record(corev1.EventTypeNormal, muster.ConditionRevoked, "Revoke", "the rights are withdrawn in the cluster: "+why)
		o.keepRecord(f)
		return
	}
	o.pend(f)
}

// pend says what a withdrawal waits for.
func (o *outcome) pend(f *facts) {
	reason, message := muster.ReasonWithdrawing, "the cluster's agent has not withdrawn the rights yet"
	if offline, how := f.offline(); offline {
		reason, message = muster.ReasonAgentOffline, "the rights can't be withdrawn now: "+how
	}
	if o.status.NotAfter != nil {
		message += "; access ends by itself at " + stamp(o.status.NotAfter.Time)
		o.recheck = o.status.NotAfter.Sub(f.now)
	}
	if o.set(f.now, muster.ConditionRevoked, metav1.ConditionFalse, reason, message) {
		o.record(corev1.EventTypeWarning, "Revoking", "Revoke", message)
	}
}

// refusal is why the user may have no access to the cluster now; empty when it may.
func refusal(f *facts) (reason, why string) {
	spec := &f.request.Spec
	switch {
	case f.cloud == nil || f.cloud.DeletionTimestamp != nil:
		return muster.ReasonNotGranted, fmt.Sprintf("the logical cloud %s is deleted", spec.LogicalCloud)
	case !cloud.Granted(f.cloud, spec.User, spec.Requester.Groups):
		return muster.ReasonNotGranted, fmt.Sprintf("no grant of the logical cloud %s names the user %q or one of the user's groups: have its administrator add one", spec.LogicalCloud, spec.User)
	case f.cluster == nil:
		return muster.ReasonClusterNotSelected, fmt.Sprintf("there is no managed cluster %s", spec.ManagedCluster)
	case !f.cluster.Spec.AcceptsClient() || f.cluster.DeletionTimestamp != nil:
		return muster.ReasonClusterNotAccepted, fmt.Sprintf("the hub does not accept the managed cluster %s, or it is being deleted", spec.ManagedCluster)
	case !f.selected && f.settled:
		return muster.ReasonClusterNotSelected, fmt.Sprintf("no placement of the logical cloud %s selects the managed cluster %s", spec.LogicalCloud, spec.ManagedCluster)
	case !modeAllowed(spec.Mode, f.cloud.Spec.Access.Modes):
		return muster.ReasonNotGranted, fmt.Sprintf("the logical cloud %s does not allow the mode %s any more", spec.LogicalCloud, spec.Mode)
	}
	return "", ""
}

func modeAllowed(mode v1alpha1.AccessMode, allowed []v1alpha1.AccessMode) bool {
	switch {
	case len(allowed) == 0:
		return true
	case mode == v1alpha1.AccessAuto:
		return slices.Contains(allowed, v1alpha1.AccessCertificate) && slices.Contains(allowed, v1alpha1.AccessToken)
	case mode == "":
		mode = v1alpha1.AccessCertificate
	}
	return slices.Contains(allowed, mode)
}

// bound reports whether the cloud's work in the cluster binds the key.
func (f *facts) bound() bool {
	return f.work != nil && slices.Contains(strings.Split(f.work.Annotations[muster.BoundKeysAnnotation], ","), f.request.Status.KeyHash)
}

// applied reports whether the agent has applied the cloud's work as it is now.
func (f *facts) applied() bool {
	if f.work == nil {
		return false
	}
	c := meta.FindStatusCondition(f.work.Status.Conditions, work.ConditionApplied)
	return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == f.work.Generation
}

// withdrawn reports whether the key has no rights in the cluster any more. Without
// cluster or work there is nothing that could give any.
func (f *facts) withdrawn() bool {
	return f.cluster == nil || f.work == nil || !f.bound() && f.applied()
}

// offline reports whether nothing can be sent to the agent, and how that is known.
func (f *facts) offline() (bool, string) {
	switch {
	case f.cluster == nil:
		return true, "the managed cluster is gone"
	case !f.cluster.Spec.AcceptsClient():
		return true, "the hub does not accept the cluster, so its agent is told nothing"
	case meta.IsStatusConditionTrue(f.cluster.Status.Conditions, cluster.ConditionAvailable):
		return false, ""
	}
	return true, "the cluster's agent gives no sign of life" + f.heartbeat
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// checkSpec checks a request as admission does, which somebody may have turned off.
func checkSpec(f *facts) (keyHash string, err error) {
	if err := access.CheckUser(f.request.Spec.User); err != nil {
		return "", fmt.Errorf("spec.user: %w", err)
	}
	return access.CheckSpec(&f.request.Spec, &f.cloud.Spec.Access, f.hubID)
}
