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
	"k8s.io/client-go/tools/clientcmd"
	bootstraputil "k8s.io/cluster-bootstrap/token/util"
	"k8s.io/kubernetes/pkg/kubeapiserver/options"
	tokens "k8s.io/kubernetes/pkg/serviceaccount"
	"k8s.io/utils/clock"

	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/extension"
)

// Authentication says who else knows the users of a control plane, beside the control plane
// itself. Those are users of the names that they have there, but for names and groups that
// begin with "system:": those are the control plane's own.
type Authentication struct {
	// ConfigFile is an AuthenticationConfiguration of apiserver.config.k8s.io, with issuers
	// of JSON web tokens as OpenID Connect has them. It is read again when it changes.
	ConfigFile string
	// WebhookConfigFile is a kubeconfig that leads to a server of TokenReviews
	// (authentication.k8s.io/v1), which is asked about tokens that nobody else knows.
	WebhookConfigFile string
}

func (a Authentication) validate() error {
	if a.ConfigFile != "" {
		o := options.NewBuiltInAuthenticationOptions()
		o.AuthenticationConfigFile = a.ConfigFile
		if _, err := o.ToAuthenticationConfig(); err != nil {
			return fmt.Errorf(
				"--authentication-config: %s: give an AuthenticationConfiguration of apiserver.config.k8s.io/v1",
				oneLine(err),
			)
		}
	}
	if a.WebhookConfigFile != "" {
		if _, err := clientcmd.LoadFromFile(a.WebhookConfigFile); err != nil {
			return fmt.Errorf(
				"--authentication-token-webhook-config-file %q: %s: give a kubeconfig that leads to a server of TokenReviews",
				a.WebhookConfigFile,
				oneLine(err),
			)
		}
	}
	return nil
}

// oneLine is the text of an error of a parser that quotes what it has read.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// ownUsers refuses users of others who have names or groups of the control plane's own.
type ownUsers struct{ authenticator.Request }

// AuthenticateRequest implements authenticator.Request.
func (o ownUsers) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	token := bearerOf(r) // what is behind removes it
	response, ok, err := o.Request.AuthenticateRequest(r)
	if err != nil || !ok || token == "" || isOwnToken(token) || r.TLS != nil && len(r.TLS.PeerCertificates) > 0 &&
		cameWith(response.User, r.TLS.PeerCertificates[0]) {
		return response, ok, err
	}
	for _, name := range append([]string{response.User.GetName()}, response.User.GetGroups()...) {
		if strings.HasPrefix(name, "system:") && name != user.AllAuthenticated {
			return nil, false, fmt.Errorf(
				"a token of another issuer is for the user or group %q: names that begin with system: "+
					"are the server's own, so map them to others in --authentication-config or at the webhook",
				name,
			)
		}
	}
	return response, true, nil
}

// isOwnToken reports whether a bearer token has the form of a bootstrap token, or names as
// its issuer the one of service accounts. The authenticators of others refuse both.
func isOwnToken(bearer string) bool {
	token := strings.TrimSpace(strings.TrimPrefix(bearer, "Bearer "))
	if bootstraputil.IsValidBootstrapToken(token) {
		return true
	}
	issuer := claimsOf(token).Issuer
	return issuer == serviceAccountIssuer || issuer == tokens.LegacyIssuer
}

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
	claims := claimsOf(token)
	if claims.IssuedAt == 0 || claims.Expires == 0 {
		return extension.NeverExpires
	}
	return strconv.FormatInt(claims.IssuedAt, 10)
}

// claims are what a JSON web token says.
type claims struct {
	Issuer   string `json:"iss"`
	IssuedAt int64  `json:"iat"`
	Expires  int64  `json:"exp"`
}

// claimsOf reads the claims of a token without verifying them; none of what is no token.
func claimsOf(token string) claims {
	var c claims
	if parts := strings.Split(token, "."); len(parts) == 3 {
		payload, err := base64.RawURLEncoding.DecodeString(parts[1])
		if err != nil || json.Unmarshal(payload, &c) != nil {
			return claims{}
		}
	}
	return c
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
	return tokenGetter{
		secrets:  factory.Core().V1().Secrets().Lister(),
		accounts: factory.Core().V1().ServiceAccounts().Lister(),
	}
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

func (tokenGetter) GetValidatingWebhookConfiguration(
	_ context.Context,
	name string,
) (*admissionregistrationv1.ValidatingWebhookConfiguration, error) {
	return nil, apierrors.NewNotFound(admissionregistrationv1.Resource("validatingwebhookconfigurations"), name)
}

func (tokenGetter) GetMutatingWebhookConfiguration(
	_ context.Context,
	name string,
) (*admissionregistrationv1.MutatingWebhookConfiguration, error) {
	return nil, apierrors.NewNotFound(admissionregistrationv1.Resource("mutatingwebhookconfigurations"), name)
}
