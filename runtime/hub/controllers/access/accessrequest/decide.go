package accessrequest

import (
	"bytes"
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

// wait takes a request a step further that has no access yet.
func (o *outcome) wait(f *facts) {
	late := f.request.CreationTimestamp.Add(patience)
	o.recheck = late.Sub(f.now)
	if reason, why := refusal(f); reason != "" {
		o.drop = f.credential != nil
		meta.RemoveStatusCondition(&o.status.Conditions, muster.ConditionIssued)
		if o.set(f.now, muster.ConditionApproved, metav1.ConditionFalse, reason, why) {
			o.record(corev1.EventTypeWarning, "Refused", "Approve", reason+": "+why)
		}
		if !f.now.Before(late) {
			o.fail(f, reason, "it has waited for too long: "+why)
		}
		return
	}
	if !o.is(muster.ConditionApproved) {
		o.approve(f)
		return // the next pass sees the answer written down
	}
	if reason, why := o.missing(f); reason != "" {
		o.set(f.now, muster.ConditionIssued, metav1.ConditionFalse, reason, why)
		if !f.now.Before(late) {
			o.fail(f, reason, "it has waited for too long: "+why)
		}
		return
	}
	o.take(f)
}

// approve says that the user may have what it asks for, unless the key is a
// withdrawn one.
func (o *outcome) approve(f *facts) {
	if !f.selected {
		return // it may be on its way from one decision to another
	}
	keyHash, err := checkSpec(f)
	if err != nil {
		o.fail(f, muster.ReasonRequestTampered, err.Error())
		return
	}
	o.status.KeyHash = keyHash
	if until, revoked := f.cloud.RevokedUntil(f.request.Spec.ManagedCluster, keyHash, f.now); revoked {
		o.fail(f, muster.ReasonKeyRevoked, fmt.Sprintf("the key was withdrawn from the cluster, and a certificate of it lives until %s: ask with another key", stamp(until)))
		return
	}
	o.set(f.now, muster.ConditionApproved, metav1.ConditionTrue, muster.ReasonGranted, "a grant of the logical cloud names the user or one of the user's groups")
	o.set(f.now, muster.ConditionIssued, metav1.ConditionFalse, muster.ReasonWaitingForRights, "the key is not bound to roles in the cluster yet")
	o.record(corev1.EventTypeNormal, muster.ConditionApproved, "Approve", "access is granted")
}

// missing is what an approved request waits for; empty when the agent has answered.
func (o *outcome) missing(f *facts) (reason, why string) {
	able := strings.Split(f.cluster.Annotations[muster.UserAccessAnnotation], ",")
	offline, how := f.offline()
	switch {
	case (!f.bound() || !f.applied()) && offline:
		return muster.ReasonAgentOffline, how
	case !f.bound() || !f.applied():
		return f.notBound()
	case !canDo(f.request.Spec.Mode, able):
		return muster.ReasonAgentUnable, fmt.Sprintf("the agent of the cluster does not issue by the mode %s: start it with --user-access. The rights are in place, so an administrator of the cluster "+
			"can sign spec.request by hand: put it into a CertificateSigningRequest for the signer kubernetes.io/kube-apiserver-client with the usages \"client auth\" and \"digital signature\" "+
			"and spec.expirationSeconds %d, and `kubectl certificate approve` it", f.request.Spec.Mode, f.request.Spec.ExpirationSeconds)
	}
	o.ask = true
	if f.credential == nil || len(f.credential.Status.Conditions) == 0 || !answered(f.credential) {
		if offline {
			return muster.ReasonAgentOffline, how
		}
		return muster.ReasonWaitingForAgent, progress(f.credential)
	}
	return "", ""
}

// notBound is why the cloud's rights are not in the cluster.
func (f *facts) notBound() (reason, why string) {
	for _, failing := range f.cloud.Status.Clusters.Failing {
		if failing.Name == f.request.Spec.ManagedCluster && failing.Reason != "" && failing.Message != "" {
			return failing.Reason, failing.Message
		}
	}
	return muster.ReasonWaitingForRights, "the key is not bound to roles in the cluster yet"
}

// canDo reports whether an agent issues what a mode needs.
func canDo(mode v1alpha1.AccessMode, able []string) bool {
	if mode == v1alpha1.AccessAuto {
		return slices.Contains(able, string(v1alpha1.AccessCertificate)) || slices.Contains(able, string(v1alpha1.AccessToken))
	}
	if mode == "" {
		mode = v1alpha1.AccessCertificate
	}
	return slices.Contains(able, string(mode))
}

// answered reports whether an agent has given or refused what it is asked for.
func answered(c *v1alpha1.ClusterCredential) bool {
	return meta.IsStatusConditionTrue(c.Status.Conditions, muster.ConditionIssued) || meta.IsStatusConditionTrue(c.Status.Conditions, muster.ConditionFailed)
}

// progress is what the agent says while it works on a credential.
func progress(c *v1alpha1.ClusterCredential) string {
	if c != nil {
		if issued := meta.FindStatusCondition(c.Status.Conditions, muster.ConditionIssued); issued != nil && issued.Message != "" {
			return "the cluster's agent says: " + issued.Message
		}
	}
	return "the cluster's agent has not answered yet"
}

// fail ends a request that gets nothing.
func (o *outcome) fail(f *facts, reason, why string) {
	o.set(f.now, muster.ConditionApproved, metav1.ConditionFalse, reason, why)
	o.set(f.now, muster.ConditionFailed, metav1.ConditionTrue, reason, why+"; create another request to try again")
	meta.RemoveStatusCondition(&o.status.Conditions, muster.ConditionIssued)
	o.record(corev1.EventTypeWarning, muster.ConditionFailed, "Issue", reason+": "+why)
	o.ask = false
	o.keepRecord(f)
}

const (
	// clockSkew is how far the clock of a cluster may be ahead of the hub's.
	clockSkew = 5 * time.Minute
	// maxIssued is how much an agent may hand in, in bytes.
	maxIssued = 16 << 10
)

// take takes over what the agent has answered, after checking that it is what was
// asked for.
func (o *outcome) take(f *facts) {
	answer := &f.credential.Status
	if failed := meta.FindStatusCondition(answer.Conditions, muster.ConditionFailed); failed != nil && failed.Status == metav1.ConditionTrue {
		o.fail(f, failed.Reason, "the cluster's agent says: "+failed.Message)
		return
	}
	issued, reason, err := read(answer, &f.request.Spec, f.hubID, o.status.KeyHash, f.now)
	if err != nil {
		o.fail(f, reason, "what the cluster's agent has handed in is not passed on: "+err.Error())
		return
	}
	o.status.IssuedAccess = issued
	message := "the cluster has issued a " + map[bool]string{true: "certificate", false: "token"}[len(issued.Certificate) > 0]
	var problem string
	if o.status.Endpoints, problem = access.Endpoints(f.cluster); problem != "" {
		message += "; EndpointUnknown: " + problem
	}
	o.set(f.now, muster.ConditionIssued, metav1.ConditionTrue, reason, message)
	o.record(corev1.EventTypeNormal, muster.ConditionIssued, "Issue", "handed out: "+message)
	o.recheck = issued.NotAfter.Sub(f.now)
}

// replace takes over the token that an agent has put in the place of one that is void.
// What does not live on within the time of the first is not passed on.
func (o *outcome) replace(f *facts) {
	if f.credential == nil || len(o.status.SealedToken) == 0 || bytes.Equal(f.credential.Status.SealedToken, o.status.SealedToken) {
		return
	}
	issued, _, err := read(&f.credential.Status, &f.request.Spec, f.hubID, o.status.KeyHash, f.now)
	if err != nil || len(issued.SealedToken) == 0 || issued.NotAfter.After(o.status.NotAfter.Add(clockSkew)) {
		return
	}
	o.status.IssuedAccess = issued
	o.record(corev1.EventTypeNormal, muster.ConditionIssued, "Issue", "handed out: the cluster has issued another token, as the first one's service account was made again")
}

// read checks an agent's answer and returns what of it is handed on. The times and
// the serial number are the certificate's own, not what the agent says of it.
func read(answer *v1alpha1.ClusterCredentialStatus, spec *v1alpha1.AccessRequestSpec, hubID, keyHash string, now time.Time) (out v1alpha1.IssuedAccess, reason string, _ error) {
	latest := now.Add(time.Duration(spec.ExpirationSeconds)*time.Second + clockSkew)
	certificate, token := len(answer.Certificate) > 0, len(answer.SealedToken) > 0
	tampered := func(format string, args ...any) (v1alpha1.IssuedAccess, string, error) {
		return v1alpha1.IssuedAccess{}, muster.ReasonRequestTampered, fmt.Errorf(format, args...)
	}
	switch {
	case certificate == token:
		return tampered("it is neither a certificate nor a token, or both")
	case certificate && spec.Mode == v1alpha1.AccessToken, token && spec.Mode != v1alpha1.AccessToken && spec.Mode != v1alpha1.AccessAuto:
		return tampered("it is not by the mode %s", spec.Mode)
	case len(answer.Certificate) > maxIssued || len(answer.SealedToken) > maxIssued:
		return tampered("it has more than %d bytes", maxIssued)
	}
	out = v1alpha1.IssuedAccess{Certificate: answer.Certificate, SealedToken: answer.SealedToken, KeyHash: keyHash}
	reason = muster.ReasonTokenIssued
	if certificate {
		reason = muster.ReasonCertificateIssued
		leaf, err := access.ReadCertificate(answer.Certificate, hubID, spec.User, keyHash)
		if err != nil {
			return tampered("%w", err)
		}
		out.Serial = leaf.SerialNumber.Text(16)
		out.NotBefore, out.NotAfter = &metav1.Time{Time: leaf.NotBefore}, &metav1.Time{Time: leaf.NotAfter}
	} else {
		out.NotBefore, out.NotAfter, out.ServiceAccountUID = answer.NotBefore, answer.NotAfter, answer.ServiceAccountUID
	}
	switch {
	case out.NotAfter == nil:
		return tampered("it does not say when the token ends")
	case out.NotAfter.After(latest):
		return v1alpha1.IssuedAccess{}, muster.ReasonSignerIgnoredLifetime,
			fmt.Errorf("it lives until %s, and %d seconds were asked for", stamp(out.NotAfter.Time), spec.ExpirationSeconds)
	case len(out.Serial) > 64:
		return tampered("its serial number is too long")
	}
	return out, reason, nil
}
