package controlplane

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"weak"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	tokens "k8s.io/kubernetes/pkg/serviceaccount"
	"k8s.io/utils/clock"

	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/extension"
)

// issued notes when the credentials of requests were issued.
type issued struct{ authenticator.Request }

// AuthenticateRequest implements authenticator.Request.
func (i issued) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	token := bearerOf(r) // what is behind removes it
	response, ok, err := i.Request.AuthenticateRequest(r)
	if err != nil || !ok || response == nil || response.User == nil {
		return response, ok, err
	}
	u := response.User
	switch {
	case r.TLS != nil && len(r.TLS.PeerCertificates) > 0 && cameWith(u, r.TLS.PeerCertificates[0]):
		u = extension.WithIssue(u, r.TLS.PeerCertificates[0])
	case strings.HasPrefix(u.GetName(), serviceaccount.ServiceAccountUsernamePrefix):
		u = extension.WithIssueTime(u, tokenIssue(token))
	case len(u.GetExtra()[extension.IssuedAtKey]) == 0:
		return response, ok, err
	default: // nobody else's word counts
		u = extension.WithIssueTime(u, extension.NeverExpires)
	}
	noted := *response
	noted.User = u
	return &noted, true, nil
}

// bearerOf is the bearer token of a request, in the header or, as browsers send it, in
// the protocol of a web socket.
func bearerOf(r *http.Request) string {
	if header := r.Header.Get("Authorization"); header != "" {
		return header
	}
	for _, protocol := range strings.Split(strings.Join(r.Header.Values("Sec-WebSocket-Protocol"), ","), ",") {
		if encoded, ok := strings.CutPrefix(strings.TrimSpace(protocol), "base64url.bearer.authorization.k8s.io."); ok {
			token, _ := base64.RawURLEncoding.DecodeString(encoded)
			return string(token)
		}
	}
	return ""
}

// cameWith reports whether a user was authenticated by a certificate, going by the
// credential's name that Kubernetes gives.
func cameWith(u user.Info, c *x509.Certificate) bool {
	ids := u.GetExtra()[user.CredentialIDKey]
	sum := sha256.Sum256(c.Raw)
	return slices.Contains(ids, "X509SHA256="+hex.EncodeToString(sum[:]))
}

// tokenIssue is the time in a service account's token, which was verified already.
func tokenIssue(token string) string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return extension.NeverExpires
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return extension.NeverExpires
	}
	var claims struct {
		IssuedAt int64 `json:"iat"`
		Expires  int64 `json:"exp"`
	}
	if json.Unmarshal(payload, &claims) != nil || claims.IssuedAt == 0 || claims.Expires == 0 {
		return extension.NeverExpires
	}
	return strconv.FormatInt(claims.IssuedAt, 10)
}

// verifiedFor is how long a verified certificate need not be verified again. One that
// has expired, or whose authority is not trusted any more, is refused at once. Only an
// authority that expires itself is noticed as late as this.
const verifiedFor = time.Minute

// verified remembers who the certificates of open connections stand for. Kubernetes
// verifies the certificate of each request, which never changes on a connection: a
// tenth of a millisecond, more than all else that a heartbeat's authentication costs.
type verified struct {
	authenticator.Request
	options func() (x509.VerifyOptions, bool)

	known sync.Map // of weak.Pointer[x509.Certificate] to bearer
}

// bearer is who a certificate stands for. It does not keep the certificate, whose
// connection may be gone.
type bearer struct {
	response *authenticator.Response
	roots    *x509.CertPool
	until    time.Time
}

// AuthenticateRequest implements authenticator.Request.
func (v *verified) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	// A token beside a certificate counts when the certificate does not.
	if r.TLS == nil || len(r.TLS.PeerCertificates) != 1 || r.Header.Get("Authorization") != "" {
		return v.Request.AuthenticateRequest(r)
	}
	options, ok := v.options()
	if !ok {
		return v.Request.AuthenticateRequest(r)
	}
	certificate := r.TLS.PeerCertificates[0]
	key := weak.Make(certificate)
	entry, known := v.known.Load(key)
	if b, _ := entry.(bearer); known && b.roots == options.Roots && options.CurrentTime.Before(b.until) {
		return b.response, true, nil
	}
	response, ok, err := v.Request.AuthenticateRequest(r)
	if err != nil || !ok {
		return response, ok, err
	}
	until := options.CurrentTime.Add(verifiedFor)
	if certificate.NotAfter.Before(until) {
		until = certificate.NotAfter
	}
	if _, known = v.known.Swap(key, bearer{response, options.Roots, until}); !known {
		runtime.AddCleanup(certificate, func(key weak.Pointer[x509.Certificate]) { v.known.Delete(key) }, key)
	}
	return response, true, nil
}

// clientCA is the authority of client certificates, which expire by a clock of
// its own: tests let years pass in seconds.
type clientCA struct {
	*dynamiccertificates.DynamicFileCAContent
	clock clock.PassiveClock
}

func newClientCA(file string, clk clock.PassiveClock) (clientCA, error) {
	content, err := dynamiccertificates.NewDynamicCAContentFromFile("client-ca-bundle", file)
	if err != nil {
		return clientCA{}, fmt.Errorf("read the authority of client certificates: %w", err)
	}
	return clientCA{content, clk}, nil
}

// VerifyOptions are those of the file, at the clock's time.
func (c clientCA) VerifyOptions() (x509.VerifyOptions, bool) {
	o, ok := c.DynamicFileCAContent.VerifyOptions()
	o.CurrentTime = c.clock.Now()
	return o, ok
}

// tokenGetter finds the objects that service-account tokens are bound to. A
// generic control plane has service accounts and secrets, and nothing else
// that a token could be bound to.
type tokenGetter struct {
	secrets  corelisters.SecretLister
	accounts corelisters.ServiceAccountLister
}

func newTokenGetter(factory informers.SharedInformerFactory) tokens.ServiceAccountTokenGetter {
	return tokenGetter{secrets: factory.Core().V1().Secrets().Lister(), accounts: factory.Core().V1().ServiceAccounts().Lister()}
}

func (g tokenGetter) GetServiceAccount(_ context.Context, namespace, name string) (*corev1.ServiceAccount, error) {
	return g.accounts.ServiceAccounts(namespace).Get(name)
}

func (g tokenGetter) GetSecret(_ context.Context, namespace, name string) (*corev1.Secret, error) {
	return g.secrets.Secrets(namespace).Get(name)
}

func (tokenGetter) GetPod(_ context.Context, _, name string) (*corev1.Pod, error) {
	return nil, apierrors.NewNotFound(corev1.Resource("pods"), name)
}

func (tokenGetter) GetNode(_ context.Context, name string) (*corev1.Node, error) {
	return nil, apierrors.NewNotFound(corev1.Resource("nodes"), name)
}

func (tokenGetter) GetValidatingWebhookConfiguration(_ context.Context, name string) (*admissionregistrationv1.ValidatingWebhookConfiguration, error) {
	return nil, apierrors.NewNotFound(admissionregistrationv1.Resource("validatingwebhookconfigurations"), name)
}

func (tokenGetter) GetMutatingWebhookConfiguration(_ context.Context, name string) (*admissionregistrationv1.MutatingWebhookConfiguration, error) {
	return nil, apierrors.NewNotFound(admissionregistrationv1.Resource("mutatingwebhookconfigurations"), name)
}
