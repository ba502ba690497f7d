package decide

import (
	"bytes"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/runtime/access"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

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
