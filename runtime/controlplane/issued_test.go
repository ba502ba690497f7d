package controlplane

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/extension"
)

// The time of issue comes from the certificate or the token that a user was authenticated
// by, and from nothing else.
func TestIssued(t *testing.T) {
	certificate := &x509.Certificate{Raw: []byte("c"), NotBefore: time.Unix(1000, 0)}
	sum := sha256.Sum256(certificate.Raw)
	id := "X509SHA256=" + hex.EncodeToString(sum[:])
	jwt := func(claims string) string {
		return "a." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".b"
	}
	bearer := func(token string) map[string]string { return map[string]string{"Authorization": "Bearer " + token} }
	const account = "system:serviceaccount:c1:x"
	never := []string{extension.NeverExpires}
	for name, x := range map[string]struct {
		user   string
		extra  map[string][]string
		with   *x509.Certificate
		header map[string]string
		want   []string
	}{
		"a certificate": {
			user: "x", extra: map[string][]string{user.CredentialIDKey: {id}}, with: certificate,
			want: []string{"1300"},
		},
		"a certificate of an account": {
			user: account, extra: map[string][]string{user.CredentialIDKey: {id}}, with: certificate,
			want: []string{"1300"},
		},
		"a certificate that a user did not come by": {
			user:  "x",
			extra: map[string][]string{user.CredentialIDKey: {"X509SHA256=00"}, extension.IssuedAtKey: {"7"}},
			with:  certificate, want: never,
		},
		"a token beside one": {
			user: account, with: certificate, header: bearer(jwt(`{"iat":7,"exp":9}`)), want: []string{"7"},
		},
		"a token": {user: account, header: bearer(jwt(`{"iat":7,"exp":9}`)), want: []string{"7"}},
		"a token of a browser": {
			user: account, want: []string{"7"},
			header: map[string]string{"Sec-WebSocket-Protocol": "v1, base64url.bearer.authorization.k8s.io." +
				base64.RawURLEncoding.EncodeToString([]byte(jwt(`{"iat":7,"exp":9}`)))},
		},
		"a token that never expires": {user: account, header: bearer(jwt(`{"iat":7}`)), want: never},
		"a token of another form":    {user: account, header: bearer("x"), want: never},
		"a time that others claim": {
			user: "x", extra: map[string][]string{extension.IssuedAtKey: {"99999999999"}}, want: never,
		},
		"a bootstrap token": {user: "system:bootstrap:abcdef", header: bearer("abcdef.0123")},
		"the hub itself":    {user: user.APIServerUser},
	} {
		t.Run(name, func(t *testing.T) {
			given := &user.DefaultInfo{Name: x.user, UID: "u", Groups: []string{"g"}, Extra: x.extra}
			a := issued{authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
				r.Header = http.Header{} // as those behind remove what they have read
				return &authenticator.Response{User: given}, true, nil
			})}
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			for k, v := range x.header {
				r.Header.Set(k, v)
			}
			if x.with != nil {
				r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{x.with}}
			}
			response, ok, err := a.AuthenticateRequest(r)
			if err != nil || !ok {
				t.Fatal(ok, err)
			}
			got := response.User
			if !slices.Equal(got.GetExtra()[extension.IssuedAtKey], x.want) {
				t.Errorf("issued at %q, want %q", got.GetExtra()[extension.IssuedAtKey], x.want)
			}
			if got.GetName() != x.user || got.GetUID() != "u" || !slices.Equal(got.GetGroups(), []string{"g"}) {
				t.Errorf("the user has changed: %+v", got)
			}
			if !slices.Equal(got.GetExtra()[user.CredentialIDKey], x.extra[user.CredentialIDKey]) {
				t.Errorf("the credential's name is lost: %v", got.GetExtra())
			}
		})
	}
}
