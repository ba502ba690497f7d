package page

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	jose "gopkg.in/go-jose/go-jose.v2"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
)

// issuer is an OpenID Connect provider that lets everybody in.
type issuer struct {
	*httptest.Server
	key *ecdsa.PrivateKey
	// asked is the last request for an authorization.
	asked url.Values
	// change changes the claims of tokens.
	change func(claims map[string]any)
	// fail is what the token endpoint answers instead of a token.
	fail string
}

func newIssuer(t testing.TB, now func() time.Time) *issuer {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testkit.Must(t, err)
	i := &issuer{key: key}
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v)
	}
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		answer(
			w,
			map[string]any{
				"issuer":                                i.URL,
				"authorization_endpoint":                i.URL + "/authorize",
				"token_endpoint":                        i.URL + "/token",
				"jwks_uri":                              i.URL + "/keys",
				"id_token_signing_alg_values_supported": []string{"ES256"},
			},
		)
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		answer(
			w,
			jose.JSONWebKeySet{
				Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k", Algorithm: "ES256", Use: "sig"}},
			},
		)
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) {
		verifier := sha256.Sum256([]byte(r.FormValue("code_verifier")))
		_, secret, _ := r.BasicAuth()
		if i.fail != "" || r.FormValue("code") != "code" || secret != "s3cret" ||
			base64.RawURLEncoding.EncodeToString(verifier[:]) != i.asked.Get("code_challenge") {
			w.WriteHeader(http.StatusBadRequest)
			answer(w, map[string]string{"error": "invalid_grant", "error_description": i.fail})
			return
		}
		claims := map[string]any{"iss": i.URL, "aud": "muster", "sub": "jo", "nonce": i.asked.Get("nonce"),
			"iat": now().Unix(), "exp": now().Add(time.Hour).Unix()}
		if i.change != nil {
			i.change(claims)
		}
		answer(w, map[string]any{"access_token": "access", "token_type": "Bearer", "id_token": i.sign(t, claims)})
	})
	i.Server = httptest.NewTLSServer(mux)
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) sign(t testing.TB, claims map[string]any) string {
	signer, err := jose.NewSigner(
		jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: i.key, KeyID: "k"}},
		nil,
	)
	testkit.Must(t, err)
	payload, err := json.Marshal(claims)
	testkit.Must(t, err)
	signed, err := signer.Sign(payload)
	testkit.Must(t, err)
	token, err := signed.CompactSerialize()
	testkit.Must(t, err)
	return token
}

// options are the page's at the issuer.
func (i *issuer) options(t testing.TB) *OIDC {
	dir := t.TempDir()
	o := &OIDC{IssuerURL: i.URL, ClientID: "muster", CAFile: filepath.Join(dir, "ca.pem"),
		ClientSecretFile: filepath.Join(dir, "secret"), Scopes: []string{"email"}}
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Certificate().Raw})
	testkit.Must(t, os.WriteFile(o.CAFile, ca, 0o600))
	testkit.Must(t, os.WriteFile(o.ClientSecretFile, []byte("s3cret\n"), 0o600))
	testkit.Must(t, o.Validate())
	return o
}

// goThere begins a login, and returns what the provider is asked for.
func (b *browser) goThere(i *issuer, next string) {
	b.Helper()
	w := b.ask("GET", "/ui/oidc/login?"+url.Values{"next": {next}}.Encode(), nil)
	b.answers(w, http.StatusSeeOther, i.URL+"/authorize?")
	u, err := url.Parse(w.Header().Get("Location"))
	testkit.Must(b, err)
	i.asked = u.Query()
}

func TestALoginAtAProvider(t *testing.T) {
	b := newBrowser(t, nil)
	i := newIssuer(t, b.clock.Now)
	b.front = newBrowser(t, i.options(t)).front
	b.answers(b.ask("GET", "/ui/clusters", nil), 401, "Log in with "+strings.TrimPrefix(i.URL, "https://"))
	b.goThere(i, "/ui/clusters")
	for name, want := range map[string]string{"client_id": "muster", "scope": "openid email", "response_type": "code",
		"redirect_uri": "https://hub.example.com/ui/oidc/callback", "code_challenge_method": "S256"} {
		if got := i.asked.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	back := "/ui/oidc/callback?" + url.Values{"code": {"code"}, "state": {i.asked.Get("state")}}.Encode()
	began := maps.Clone(b.cookies)
	b.answers(b.ask("GET", back, nil), http.StatusSeeOther, "/ui/clusters")
	b.reached = nil
	b.ask("GET", "/ui/clusters", nil)
	if len(b.reached) != 1 || strings.Count(b.reached[0], ".") != 2 {
		t.Errorf("reached %q, want a JSON web token", b.reached)
	}
	b.cookies = map[string]string{}
	b.answers(b.ask("GET", back, nil), http.StatusBadRequest, "not begun in this browser")
	b.cookies = began
	b.clock.SetTime(b.clock.Now().Add(loginLife))
	b.front.clock = b.clock
	b.answers(b.ask("GET", back, nil), http.StatusBadRequest, "too long ago")
}

func TestALoginAtAProviderFails(t *testing.T) {
	for name, x := range map[string]struct {
		change func(*issuer)
		back   url.Values
		status int
		want   string
	}{
		"the provider refuses": {nil, url.Values{"error": {"access_denied"}, "error_description": {"<b>no</b>"}}, 502,
			"has refused the login: access_denied: &lt;b&gt;no&lt;/b&gt;"},
		"another state": {nil, url.Values{"code": {"code"}, "state": {"x"}}, 400, "not begun in this browser"},
		"another code":  {nil, url.Values{"code": {"x"}}, 502, "has given no token"},
		"no token":      {func(i *issuer) { i.fail = "gone" }, url.Values{"code": {"code"}}, 502, "gone"},
		"another login": {func(i *issuer) { i.change = func(c map[string]any) { c["nonce"] = "x" } },
			url.Values{"code": {"code"}}, 502, "for another login"},
		"another client": {func(i *issuer) { i.change = func(c map[string]any) { c["aud"] = "x" } },
			url.Values{"code": {"code"}}, 502, "can&#39;t be used"},
		"an old token": {func(i *issuer) { i.change = func(c map[string]any) { c["exp"] = 1 } },
			url.Values{"code": {"code"}}, 502, "expired"},
		"a token without end": {func(i *issuer) {
			i.change = func(c map[string]any) { c["groups"] = strings.Repeat("g", 4000) }
		}, url.Values{"code": {"code"}}, 400, "fewer groups"},
		"a silent provider": {func(i *issuer) { i.CloseClientConnections(); i.Close() },
			url.Values{"code": {"code"}}, 502,
			"has given no token"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBrowser(t, nil)
			i := newIssuer(t, b.clock.Now)
			b.front = newBrowser(t, i.options(t)).front
			b.goThere(i, "/ui/")
			if x.change != nil {
				x.change(i)
			}
			if x.back.Get("state") == "" {
				x.back.Set("state", i.asked.Get("state"))
			}
			b.answers(b.ask("GET", "/ui/oidc/callback?"+x.back.Encode(), nil), x.status, x.want)
			if _, in := b.cookies[b.front.seal.Load().sessionCookie()]; in {
				t.Error("it is logged in")
			}
		})
	}
}

func TestOIDCIsChecked(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	testkit.Must(t, os.WriteFile(empty, nil, 0o600))
	const good = "https://issuer.example.com"
	for name, x := range map[string]struct {
		o    OIDC
		want string
	}{
		"plain": {OIDC{IssuerURL: "http://issuer.example.com", ClientID: "a"},
			`"http://issuer.example.com" is no URL that begins with https://`},
		"no URL":    {OIDC{IssuerURL: "issuer", ClientID: "a"}, `"issuer" is no URL`},
		"no client": {OIDC{IssuerURL: good}, "without --web-page-oidc-client-id"},
		"no secret": {OIDC{IssuerURL: good, ClientID: "a", ClientSecretFile: dir + "/none"},
			"--web-page-oidc-client-secret-file"},
		"no CA": {OIDC{IssuerURL: good, ClientID: "a", CAFile: empty}, "no certificate in it"},
	} {
		if err := x.o.Validate(); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
