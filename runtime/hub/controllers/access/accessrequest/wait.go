package accessrequest

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

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
