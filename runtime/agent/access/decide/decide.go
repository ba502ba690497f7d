// Package decide decides what an agent does next about a credential that the hub
// asks it for: refuse it, make, approve or remove a certificate request, hand over
// what the cluster has issued, or withdraw it. It is pure: a view of both sides in,
// one step out.
//
// The hub is not trusted here. All that it says is checked again, and nothing is
// done that an honest hub does not ask for.
package decide

import (
	"bytes"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/runtime/access"
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

const (
	// clockSkew is how much longer than asked for a certificate or token may live.
	// Signers date certificates back by five minutes, and may round.
	clockSkew = 10 * time.Minute
	// maxChain is the longest certificate chain that the hub takes, in bytes.
	maxChain = 16 << 10
)

// check checks all that the hub says about a credential, and returns the hash of
// the key that gets access. The step is to refuse it, or none.
func check(v View) (keyHash string, refusal Step) {
	keyHash, err := genuine(v.Credential, v.ClusterName, v.HubID)
	if err != nil {
		return "", refuse(muster.ReasonRequestTampered, "the hub asks for what no honest hub asks for: %v", err)
	}
	if err := v.Policy.Refuses(v.Credential.Spec, v.AgentNamespace); err != nil {
		return "", refuse(muster.ReasonRefusedByPolicy, "%v", err)
	}
	return keyHash, Step{}
}

// genuine checks that a credential is one that an honest hub makes.
func genuine(c *v1alpha1.ClusterCredential, clusterName, hubID string) (keyHash string, err error) {
	s := c.Spec
	switch {
	case c.Namespace != clusterName:
		return "", fmt.Errorf("it is in the namespace %s, and the cluster is %s", c.Namespace, clusterName)
	case s.AccessRequest.UID == "" || c.Name != muster.Credential(string(s.AccessRequest.UID)):
		return "", fmt.Errorf("its name %s is not that of a credential for the access request with the UID %q", c.Name, s.AccessRequest.UID)
	case s.HubID != hubID:
		return "", fmt.Errorf("it is of the hub %q, and this hub is %q", s.HubID, hubID)
	case s.User == "" || s.Requester == "":
		return "", errors.New("it names no user or no requester")
	case access.CheckUser(s.User) != nil:
		return "", fmt.Errorf("its user can't be one of the hub: %w", access.CheckUser(s.User))
	case len(validation.IsDNS1123Label(s.Namespace)) > 0:
		return "", fmt.Errorf("%q is no name of a namespace", s.Namespace)
	case s.ExpirationSeconds < muster.MinLifetimeSeconds || s.ExpirationSeconds > muster.MaxLifetimeSeconds:
		return "", fmt.Errorf("its lifetime is %d seconds, and must be %d to %d", s.ExpirationSeconds, muster.MinLifetimeSeconds, muster.MaxLifetimeSeconds)
	}
	return keys(s, hubID)
}

// keys checks what a mode needs, and returns the hash of the key that gets access:
// that of the certificate request, or in the mode Token that of sealTo.
func keys(s v1alpha1.ClusterCredentialSpec, hubID string) (keyHash string, err error) {
	switch s.Mode {
	case v1alpha1.AccessCertificate:
		return requestKey(s, hubID)
	case v1alpha1.AccessToken:
		return sealKey(s, nil)
	case v1alpha1.AccessAuto:
		if _, err := sealKey(s, s.Request); err != nil {
			return "", err
		}
		return requestKey(s, hubID)
	}
	return "", fmt.Errorf("its mode is %q", s.Mode)
}

func requestKey(s v1alpha1.ClusterCredentialSpec, hubID string) (keyHash string, err error) {
	keyHash, err = access.CheckRequest(s.Request, hubID, s.User)
	if err != nil {
		return "", fmt.Errorf("its certificate request is not one for the user %q of this hub: %w", s.User, err)
	}
	return keyHash, nil
}

func sealKey(s v1alpha1.ClusterCredentialSpec, request []byte) (keyHash string, err error) {
	keyHash, err = access.CheckSealTo(s.SealTo, request)
	if err != nil {
		return "", fmt.Errorf("its key for tokens can't be used: %w", err)
	}
	return keyHash, nil
}

// RequestSpec is the spec of the certificate request for a credential whose request
// has been checked.
func RequestSpec(c *v1alpha1.ClusterCredential) certificatesv1.CertificateSigningRequestSpec {
	return certificatesv1.CertificateSigningRequestSpec{
		Request:           c.Spec.Request,
		SignerName:        certificatesv1.KubeAPIServerClientSignerName,
		ExpirationSeconds: ptr.To(c.Spec.ExpirationSeconds),
		Usages:            usages(c.Spec.Request),
	}
}

func usages(request []byte) []certificatesv1.KeyUsage {
	out := []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth, certificatesv1.UsageDigitalSignature}
	if block, _ := pem.Decode(request); block != nil {
		if r, err := x509.ParseCertificateRequest(block.Bytes); err == nil {
			if _, isRSA := r.PublicKey.(*rsa.PublicKey); isRSA {
				out = append(out, certificatesv1.UsageKeyEncipherment)
			}
		}
	}
	return out
}

// SameRequest reports whether a certificate request is the one for a credential, bit
// by bit. Kubernetes before 1.22 drops the lifetime, which the certificate shows.
func SameRequest(r *certificatesv1.CertificateSigningRequest, c *v1alpha1.ClusterCredential) bool {
	want := RequestSpec(c)
	return bytes.Equal(r.Spec.Request, want.Request) && r.Spec.SignerName == want.SignerName && slices.Equal(r.Spec.Usages, want.Usages) &&
		(r.Spec.ExpirationSeconds == nil || *r.Spec.ExpirationSeconds == *want.ExpirationSeconds)
}

// certificateError is what is wrong with a certificate.
type certificateError struct {
	error
	lifetime bool // it lives too long
}

// checkCertificate checks what the cluster's signer has made of a certificate
// request. It returns nil for a good one.
func checkCertificate(chain []byte, c *v1alpha1.ClusterCredential, hubID string) *certificateError {
	keyHash, err := keys(c.Spec, hubID)
	if err != nil {
		return &certificateError{error: err}
	}
	leaf, err := access.ReadCertificate(chain, hubID, c.Spec.User, keyHash)
	if err != nil {
		return &certificateError{error: fmt.Errorf("what the cluster's signer made is withheld: %w", err)}
	}
	if len(chain) > maxChain {
		return &certificateError{error: fmt.Errorf("what the cluster's signer made is withheld: it has %d bytes, and the hub takes %d", len(chain), maxChain)}
	}
	asked := time.Duration(c.Spec.ExpirationSeconds) * time.Second
	if lives := leaf.NotAfter.Sub(leaf.NotBefore); lives > asked+clockSkew {
		return &certificateError{lifetime: true, error: fmt.Errorf("the cluster's signer has made a certificate for %s in place of %s, which is withheld; "+
			"Kubernetes before 1.22 and some signers take no notice of the lifetime: ask for the mode Token or Auto", lives, asked)}
	}
	return nil
}

// Issued is what to hand over of a certificate that has been checked.
func Issued(chain []byte, keyHash string) (v1alpha1.IssuedAccess, error) {
	block, _ := pem.Decode(chain)
	if block == nil {
		return v1alpha1.IssuedAccess{}, errors.New("the certificate is not PEM")
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return v1alpha1.IssuedAccess{}, fmt.Errorf("read the certificate: %w", err)
	}
	return v1alpha1.IssuedAccess{
		Certificate: chain,
		KeyHash:     keyHash,
		Serial:      strings.ToLower(leaf.SerialNumber.Text(16)),
		NotBefore:   ptr.To(metav1.NewTime(leaf.NotBefore)),
		NotAfter:    ptr.To(metav1.NewTime(leaf.NotAfter)),
	}, nil
}

// claims are what a token of a service account says about itself.
type claims struct {
	Subject    string `json:"sub"`
	IssuedAt   int64  `json:"iat"`
	Expires    int64  `json:"exp"`
	Kubernetes struct {
		Namespace      string `json:"namespace"`
		ServiceAccount struct {
			Name string    `json:"name"`
			UID  types.UID `json:"uid"`
		} `json:"serviceaccount"`
	} `json:"kubernetes.io"`
}

// CheckToken checks that a token, which came from the cluster's API server, is of
// the right service account and does not live longer than asked for. Errors don't
// hold the token.
func CheckToken(token, namespace, name string, uid types.UID, expirationSeconds int32) error {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return errors.New("what the managed cluster issued is no token of a service account")
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return errors.New("what the managed cluster issued is no token of a service account: it is not base64")
	}
	var c claims
	if json.Unmarshal(payload, &c) != nil {
		return errors.New("what the managed cluster issued is no token of a service account: it is not JSON")
	}
	account := c.Kubernetes.ServiceAccount
	if c.Kubernetes.Namespace != namespace || account.Name != name || account.UID != uid {
		return fmt.Errorf("the managed cluster issued a token of the service account %s/%s with the UID %s, "+
			"and not of %s/%s with the UID %s, which the work made: it is withheld", c.Kubernetes.Namespace, account.Name, account.UID, namespace, name, uid)
	}
	asked := time.Duration(expirationSeconds) * time.Second
	if lives := time.Duration(c.Expires-c.IssuedAt) * time.Second; c.Expires == 0 || lives > asked+clockSkew {
		return fmt.Errorf("the managed cluster issued a token for %s in place of %s: it is withheld", lives, asked)
	}
	return nil
}
