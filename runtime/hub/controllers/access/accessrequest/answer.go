package accessrequest

import (
	"bytes"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/access"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

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
