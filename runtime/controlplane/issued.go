package controlplane

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// IssuedAtKey is the key of a user's extra information that has the time, in seconds
// since 1970, at which the certificate or the token of a service account was issued that
// the user came with. NeverExpires stands for a token that does not say, which lives
// for ever. Others, such as users whom an administrator impersonates, have none.
const IssuedAtKey = "muster-fleet.io/credential-issued-at"

// NeverExpires is the value of IssuedAtKey for a token without a time.
const NeverExpires = "never-expires"

// WithIssue adds to a user's extra information when the certificate was issued.
func WithIssue(u user.Info, c *x509.Certificate) user.Info {
	return withExtra(u, strconv.FormatInt(cluster.IssuedAt(c.NotBefore).Unix(), 10))
}

func withExtra(u user.Info, value string) user.Info {
	extra := maps.Clone(u.GetExtra())
	if extra == nil {
		extra = map[string][]string{}
	}
	extra[IssuedAtKey] = []string{value}
	return &user.DefaultInfo{Name: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups(), Extra: extra}
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
		u = WithIssue(u, r.TLS.PeerCertificates[0])
	case strings.HasPrefix(u.GetName(), serviceaccount.ServiceAccountUsernamePrefix):
		u = withExtra(u, tokenIssue(token))
	case len(u.GetExtra()[IssuedAtKey]) == 0:
		return response, ok, err
	default: // nobody else's word counts
		u = withExtra(u, NeverExpires)
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
		return NeverExpires
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return NeverExpires
	}
	var claims struct {
		IssuedAt int64 `json:"iat"`
		Expires  int64 `json:"exp"`
	}
	if json.Unmarshal(payload, &claims) != nil || claims.IssuedAt == 0 || claims.Expires == 0 {
		return NeverExpires
	}
	return strconv.FormatInt(claims.IssuedAt, 10)
}
