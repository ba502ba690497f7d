package controlplane

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"

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
