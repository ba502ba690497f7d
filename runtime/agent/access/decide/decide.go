// Package decide decides what an agent does next about a credential that the hub
// asks it for: refuse it, make, approve or remove a certificate request, hand over
// what the cluster has issued, or withdraw it. It is pure: a view of both sides in,
// one step out.
//
// The hub is not trusted here. All that it says is checked again, and nothing is
// done that an honest hub does not ask for.
package decide

import (
	"fmt"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/access/policy"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// SignerTimeout is how long a signer may take, from the approval on, until it counts
// as silent.
const SignerTimeout = 30 * time.Second

// Action is what to do.
type Action int

// What to do.
const (
	// Nothing waits for news, or for Step.After.
	Nothing Action = iota
	// Create makes the certificate request.
	Create
	// Approve approves it.
	Approve
	// Certify hands over the certificate.
	Certify
	// Token asks for a token and hands it over.
	Token
	// Refuse reports that nothing is issued, for Step.Reason.
	Refuse
	// Withdraw takes back what was issued, for Step.Reason.
	Withdraw
	// Remove deletes the certificate request.
	Remove
)

// Step is what to do next.
type Step struct {
	Action  Action
	KeyHash string
	// After is when to look again, if not 0.
	After time.Duration
	// Reason and Message say why something is refused or withdrawn.
	Reason, Message string
	// Until is when the token ends that takes the place of one that is void; zero for a
	// first one, which lives as long as asked for.
	Until time.Time
	// Signer says that the cluster's signer is to blame, when a token takes the
	// certificate's place.
	Signer string
}

// View is what is known about a credential.
type View struct {
	// ClusterName, HubID and AgentNamespace say where the agent is.
	ClusterName, HubID, AgentNamespace string
	Policy                             policy.Policy
	// Able are the modes that the agent has the rights for.
	Able []v1alpha1.AccessMode
	// SignerSilent is set while the cluster's signer is known not to sign.
	SignerSilent bool

	Credential *v1alpha1.ClusterCredential
	// Account is the UID of the service account that the cloud's work has made for the
	// credential's key; "" while there is none.
	Account types.UID
	// Request is the certificate request of the credential's name, if there is one,
	// and Ours whether this agent made it.
	Request *certificatesv1.CertificateSigningRequest
	Ours    bool
	Now     time.Time
}

// Next decides.
func Next(v View) Step {
	c := v.Credential
	switch {
	case !c.DeletionTimestamp.IsZero():
		return v.cleanUp()
	case meta.IsStatusConditionTrue(c.Status.Conditions, muster.ConditionIssued):
		return v.afterwards()
	}
	failed := meta.FindStatusCondition(c.Status.Conditions, muster.ConditionFailed)
	isFailed := failed != nil && failed.Status == metav1.ConditionTrue
	if isFailed && !mayPass(c, failed.Reason) {
		return v.cleanUp()
	}
	keyHash, refusal := check(v)
	var modes []v1alpha1.AccessMode
	if refusal.Action != Refuse {
		modes, refusal = v.modes()
	}
	switch {
	case refusal.Action != Refuse:
		step := v.pursue(modes)
		step.KeyHash = keyHash
		return step
	case isFailed && failed.Reason == refusal.Reason && failed.Message == refusal.Message:
		return v.cleanUp()
	}
	return refusal
}

// afterwards is the next step for a credential that was issued: the owner may have
// changed the policy since. A policy that can't be read takes nothing back, as that
// can't be undone once the mistake in it is found.
func (v View) afterwards() Step {
	if v.Policy.Problem() != nil {
		return v.cleanUp()
	}
	err := v.Policy.Refuses(v.Credential.Spec, v.AgentNamespace)
	if err == nil {
		_, err = v.Policy.Modes(issuedAs(v.Credential))
	}
	if err != nil {
		return Step{Action: Withdraw, KeyHash: v.Credential.Status.KeyHash, Reason: muster.ReasonRefusedByPolicy, Message: err.Error()}
	}
	if step := v.replace(); step.Action == Token {
		return step
	}
	return v.cleanUp()
}

// replace has a token replaced whose service account is gone and was made again, as
// when the cloud's accounts were moved. The new one ends when the first would have.
func (v View) replace() Step {
	issued := v.Credential.Status.IssuedAccess
	if len(issued.SealedToken) == 0 || issued.NotAfter == nil || v.Account == "" || string(v.Account) == issued.ServiceAccountUID {
		return Step{}
	}
	if keyHash, refusal := check(v); refusal.Action == Refuse || keyHash != issued.KeyHash {
		return Step{}
	}
	if issued.NotAfter.Sub(v.Now) < muster.MinLifetimeSeconds*time.Second || !slices.Contains(v.Able, v1alpha1.AccessToken) {
		return Step{} // Kubernetes issues no shorter tokens
	}
	return Step{Action: Token, KeyHash: issued.KeyHash, Until: issued.NotAfter.Time}
}

// issuedAs is the mode in which a credential was issued.
func issuedAs(c *v1alpha1.ClusterCredential) v1alpha1.AccessMode {
	if len(c.Status.SealedToken) > 0 {
		return v1alpha1.AccessToken
	}
	return v1alpha1.AccessCertificate
}

// mayPass reports whether a credential that has failed may still be issued: when
// the owner changes the policy, or gives the agent the rights that it lacks. What
// was withdrawn stays so.
func mayPass(c *v1alpha1.ClusterCredential, reason string) bool {
	return c.Status.KeyHash == "" && (reason == muster.ReasonRefusedByPolicy || reason == muster.ReasonAgentUnable)
}

// cleanUp removes the agent's own certificate request, if it is still there.
func (v View) cleanUp() Step {
	if v.Request != nil && v.Ours {
		return Step{Action: Remove}
	}
	return Step{}
}

// modes are the ways in to try, in this order.
func (v View) modes() ([]v1alpha1.AccessMode, Step) {
	allowed, err := v.Policy.Modes(v.Credential.Spec.Mode)
	if err != nil {
		return nil, refuse(muster.ReasonRefusedByPolicy, "%v", err)
	}
	var modes []v1alpha1.AccessMode
	for _, mode := range allowed {
		if slices.Contains(v.Able, mode) {
			modes = append(modes, mode)
		}
	}
	if len(modes) == 0 {
		return nil, refuse(muster.ReasonAgentUnable, "the agent lacks the rights in the cluster for access in the mode %s: "+
			"give it the ClusterRole for user access, as muster_klusterlet does with user_access", allowed[0])
	}
	if v.SignerSilent && len(modes) > 1 {
		modes = modes[1:] // no use in waiting for the signer once more
	}
	return modes, Step{}
}

// pursue is the next step in the first of the modes that can still succeed.
func (v View) pursue(modes []v1alpha1.AccessMode) Step {
	if modes[0] == v1alpha1.AccessToken {
		return Step{Action: Token}
	}
	step := v.certificate()
	if step.Action == Refuse && len(modes) > 1 && step.Signer != "" {
		return Step{Action: Token, Signer: step.Signer}
	}
	return step
}

// certificate is the next step towards a certificate.
func (v View) certificate() Step {
	r := v.Request
	switch {
	case r == nil:
		return Step{Action: Create}
	case !v.Ours:
		return refuse(muster.ReasonRequestTampered, "the cluster has a certificate request %s that the agent did not make, and does not approve: "+
			"find out who made it, delete it, and make another access request", r.Name)
	case !r.DeletionTimestamp.IsZero():
		return Step{}
	case !SameRequest(r, v.Credential):
		return Step{Action: Remove} // of an earlier credential of this name
	}
	var approved *certificatesv1.CertificateSigningRequestCondition
	for i := range r.Status.Conditions {
		c := &r.Status.Conditions[i]
		switch c.Type {
		case certificatesv1.CertificateDenied:
			return refuse(muster.ReasonRequestDenied, "somebody in the cluster has denied the certificate request: %s", c.Message)
		case certificatesv1.CertificateFailed:
			step := refuse(muster.ReasonSignerRefused, "the cluster's signer does not sign the certificate request: %s", c.Message)
			step.Signer = step.Message
			return step
		case certificatesv1.CertificateApproved:
			approved = c
		}
	}
	switch {
	case approved == nil:
		return Step{Action: Approve}
	case len(r.Status.Certificate) > 0:
		return v.certify()
	}
	if left := approved.LastUpdateTime.Add(SignerTimeout).Sub(v.Now); left > 0 {
		return Step{After: left}
	}
	step := refuse(muster.ReasonSignerSilent, "the cluster has signed no certificate within %s after the approval; "+
		"a cluster without a signer for client certificates, as on EKS, needs the mode Token or Auto", SignerTimeout)
	step.Signer = step.Message
	return step
}

func (v View) certify() Step {
	if err := checkCertificate(v.Request.Status.Certificate, v.Credential, v.HubID); err != nil {
		reason := muster.ReasonRequestTampered
		if err.lifetime {
			reason = muster.ReasonSignerIgnoredLifetime
		}
		step := refuse(reason, "%v", err)
		step.Signer = step.Message
		return step
	}
	return Step{Action: Certify}
}

func refuse(reason, format string, args ...any) Step {
	return Step{Action: Refuse, Reason: reason, Message: fmt.Sprintf(format, args...)}
}
