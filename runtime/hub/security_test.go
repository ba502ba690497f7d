package hub_test

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/kubeconfig"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testcollector"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub"
)

// secured runs a hub with options in dir for as long as do takes.
func secured(t *testing.T, dir string, o hub.Options, do func(admin *rest.Config)) {
	t.Helper()
	o.DataDir = dir
	ready, stop, err := start(o)
	testkit.Must(t, err)
	defer func() { testkit.Must(t, stop()) }()
	config, err := clientcmd.BuildConfigFromFlags("", ready.Kubeconfig)
	testkit.Must(t, err)
	do(config)
}

func makeSecret(t *testing.T, admin *rest.Config, name, content string) {
	t.Helper()
	testkit.Must(t, clientFor(t, admin).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, StringData: map[string]string{"a": content},
	}))
}

func hasSecret(t *testing.T, admin *rest.Config, name, content string) {
	t.Helper()
	s := &corev1.Secret{}
	testkit.Must(t, clientFor(t, admin).Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, s))
	if got := string(s.Data["a"]); got != content {
		t.Errorf("Secret %s has %q, want %q", name, got, content)
	}
}

// stored reports whether the file of a store has a text.
func stored(t *testing.T, dir, text string) bool {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, "etcd", "member", "snap", "db"))
	testkit.Must(t, err)
	return strings.Contains(string(content), text)
}

// What a store keeps is encrypted when that is asked for, and no longer when it isn't.
// Neither needs a write by a user.
func TestSecretsAreEncryptedAtRest(t *testing.T) {
	dir := t.TempDir()
	encrypting := hub.Options{EncryptedResources: []string{"secrets"}}
	secured(t, dir, hub.Options{}, func(admin *rest.Config) { makeSecret(t, admin, "old", "plain-content-1") })
	if !stored(t, dir, "plain-content-1") {
		t.Fatal("the test does not find what is not encrypted")
	}
	secured(t, dir, encrypting, func(admin *rest.Config) {
		hasSecret(t, admin, "old", "plain-content-1")
		makeSecret(t, admin, "new", "plain-content-2")
	})
	for _, text := range []string{"plain-content-1", "plain-content-2"} {
		if stored(t, dir, text) {
			t.Errorf("the store's file still has %s", text)
		}
	}
	secured(t, dir, hub.Options{}, func(admin *rest.Config) {
		hasSecret(t, admin, "old", "plain-content-1")
		hasSecret(t, admin, "new", "plain-content-2")
	})
	if !stored(t, dir, "plain-content-2") {
		t.Error("the store still encrypts what it was told not to")
	}

	// Another key is said to be one. Without the old one, what was encrypted goes.
	secured(t, dir, encrypting, func(*rest.Config) {})
	testkit.Must(t, os.Remove(filepath.Join(dir, "pki", "service-account.key")))
	encrypting.DataDir = dir
	if err := hub.Run(t.Context(), encrypting, func(hub.Ready) {}); err == nil ||
		!strings.Contains(err.Error(), "service-account.key missing") {
		t.Errorf("a start without the key: %v", err)
	}
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "pki", "service-account.key"), otherKey(t), 0o600))
	if err := hub.Run(t.Context(), encrypting, func(hub.Ready) {}); err == nil ||
		!strings.Contains(
			err.Error(),
			"another service-account key",
		) || !strings.Contains(err.Error(), "from the backup") {
		t.Errorf("a start with another key: %v", err)
	}
	encrypting.ReplaceLostKeys = true
	secured(t, dir, encrypting, func(admin *rest.Config) {
		err := clientFor(
			t,
			admin,
		).Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "old"}, &corev1.Secret{})
		if !apierrors.IsNotFound(err) {
			t.Errorf("a Secret whose key is lost: %v", err)
		}
		makeSecret(t, admin, "old", "plain-content-3")
	})
}

// otherKey is the service-account key of another hub.
func otherKey(t *testing.T) []byte {
	t.Helper()
	dir := t.TempDir()
	secured(t, dir, hub.Options{}, func(*rest.Config) {})
	key, err := os.ReadFile(filepath.Join(dir, "pki", "service-account.key"))
	testkit.Must(t, err)
	return key
}

// issuer is an OpenID Connect provider.
type issuer struct {
	*httptest.Server
	key *rsa.PrivateKey
	// review answers TokenReviews.
	review func(token string) *authenticationv1.UserInfo
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	testkit.Must(t, err)
	i := &issuer{key: key}
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, what any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(what)
	}
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{
			"issuer": i.URL, "jwks_uri": i.URL + "/keys", "id_token_signing_alg_values_supported": []string{"RS256"},
			"response_types_supported": []string{"id_token"}, "subject_types_supported": []string{"public"},
		})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"keys": []any{map[string]string{
			"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "1",
			"n": base64.RawURLEncoding.EncodeToString(key.N.Bytes()),
			"e": base64.RawURLEncoding.EncodeToString(big.NewInt(int64(key.E)).Bytes()),
		}}})
	})
	mux.HandleFunc("/review", func(w http.ResponseWriter, r *http.Request) {
		var review authenticationv1.TokenReview
		_ = json.NewDecoder(r.Body).Decode(&review)
		if u := i.review(review.Spec.Token); u != nil {
			review.Status.Authenticated, review.Status.User = true, *u
		}
		answer(w, review)
	})
	i.Server = httptest.NewTLSServer(mux)
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) authority() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Certificate().Raw})
}

// token is one for a user, signed.
func (i *issuer) token(t *testing.T, user string, groups ...string) string {
	t.Helper()
	payload, err := json.Marshal(map[string]any{
		"iss": i.URL, "aud": "muster", "sub": user, "groups": groups,
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
	})
	testkit.Must(t, err)
	encode := base64.RawURLEncoding.EncodeToString
	signed := encode([]byte(`{"alg":"RS256","kid":"1","typ":"JWT"}`)) + "." + encode(payload)
	sum := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(rand.Reader, i.key, crypto.SHA256, sum[:])
	testkit.Must(t, err)
	return signed + "." + encode(signature)
}

// Users of an OpenID Connect provider and of a webhook are let in, and get no name that the
// hub gives rights to by itself.
func TestUsersOfOthersLogIn(t *testing.T) {
	i, folder := newIssuer(t), t.TempDir()
	i.review = func(token string) *authenticationv1.UserInfo {
		switch token {
		case "of-ann":
			return &authenticationv1.UserInfo{Username: "ann"}
		case "of-an-agent":
			return &authenticationv1.UserInfo{Username: "system:open-cluster-management:paris:agent"}
		}
		return nil
	}
	config := filepath.Join(folder, "authentication.yaml")
	testkit.Must(t, os.WriteFile(config, fmt.Appendf(nil, `apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
jwt:
- issuer:
    url: %s
    audiences: [muster]
    certificateAuthority: |
      %s
  claimMappings:
    username: {claim: sub, prefix: ""}
    groups: {claim: groups, prefix: ""}
`, i.URL, strings.ReplaceAll(strings.TrimSpace(string(i.authority())), "\n", "\n      ")), 0o600))
	webhook := filepath.Join(folder, "webhook.kubeconfig")
	content, err := kubeconfig.Config{
		Cluster: "webhook", User: "hub", Server: i.URL + "/review", CAData: i.authority(), Token: "x",
	}.YAML()
	testkit.Must(t, err)
	testkit.Must(t, os.WriteFile(webhook, content, 0o600))

	o := hub.Options{Authentication: controlplane.Authentication{ConfigFile: config, WebhookConfigFile: webhook}}
	secured(t, t.TempDir(), o, func(admin *rest.Config) {
		ask := func(token string) (*authenticationv1.SelfSubjectReview, error) {
			c := rest.AnonymousClientConfig(admin)
			c.BearerToken = token
			return clientsetFor(t, c).AuthenticationV1().SelfSubjectReviews().Create(
				t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		}
		// The provider's keys are fetched in the background.
		testkit.Eventually(t, func() error { _, err := ask(i.token(t, "joe", "ops")); return err })
		for name, x := range map[string]struct{ token, want string }{
			"a user of the provider":                  {i.token(t, "joe", "ops"), "joe"},
			"a user of the webhook":                   {"of-ann", "ann"},
			"an administrator by name":                {i.token(t, "joe", "system:masters"), ""},
			"an agent by name":                        {i.token(t, "system:open-cluster-management:paris:agent"), ""},
			"a service account by name":               {i.token(t, "system:serviceaccount:kube-system:x"), ""},
			"an agent by the webhook":                 {"of-an-agent", ""},
			"a token that nobody knows":               {"nobody", ""},
			"a token of the provider, with one's end": {i.token(t, "joe") + "x", ""},
		} {
			review, err := ask(x.token)
			if x.want == "" {
				if !apierrors.IsUnauthorized(err) {
					t.Errorf("%s: %v, %v", name, review.Status.UserInfo, err)
				}
			} else if err != nil || review.Status.UserInfo.Username != x.want {
				t.Errorf("%s: %v, %v", name, review.Status.UserInfo, err)
			}
		}
		// Tokens of the hub are as good as before.
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot", Namespace: "default"}}
		testkit.Must(t, clientFor(t, admin).Create(t.Context(), account))
		token, err := clientsetFor(t, admin).CoreV1().ServiceAccounts("default").CreateToken(
			t.Context(), "robot", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		testkit.Must(t, err)
		if review, err := ask(token.Status.Token); err != nil ||
			review.Status.UserInfo.Username != "system:serviceaccount:default:robot" {
			t.Errorf("a service account: %v, %v", review.Status.UserInfo, err)
		}
	})
}

// The audit log says who has changed what, without what is secret, and without what happens
// by itself.
func TestAuditLog(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "audit", "audit.log")
	o := hub.Options{Audit: controlplane.Audit{LogPath: path, MaxSize: 1}}
	secured(t, dir, o, func(admin *rest.Config) {
		makeSecret(t, admin, "s", "secret-content")
		hasSecret(t, admin, "s", "secret-content")
		c := clientFor(t, admin)
		testkit.Must(t, c.List(t.Context(), &corev1.ConfigMapList{}))
		testkit.Must(
			t,
			c.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m", Namespace: "default"}}),
		)
		stranger := rest.AnonymousClientConfig(admin)
		stranger.BearerToken = "nobody"
		err := clientFor(
			t,
			stranger,
		).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "n", Namespace: "default"}})
		if !apierrors.IsUnauthorized(err) {
			t.Errorf("a stranger: %v", err)
		}
	})
	content, err := os.ReadFile(path)
	testkit.Must(t, err)
	var got []string
	for line := range strings.Lines(string(content)) {
		var e struct {
			Verb      string
			User      struct{ Username string }
			ObjectRef struct{ Resource, Name string }
		}
		testkit.Must(t, json.Unmarshal([]byte(line), &e))
		got = append(got, fmt.Sprintf("%s %s %s/%s", e.User.Username, e.Verb, e.ObjectRef.Resource, e.ObjectRef.Name))
	}
	want := "muster-admin create secrets/s, muster-admin get secrets/s, muster-admin create configmaps/m"
	if strings.Join(got, ", ") != want {
		t.Errorf("the log has %s, want %s", strings.Join(got, ", "), want)
	}
	for _, secret := range []string{"secret-content", base64.StdEncoding.EncodeToString([]byte("secret-content"))} {
		if strings.Contains(string(content), secret) {
			t.Error("the log has the content of a Secret")
		}
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the log's folder: %v, %v", info.Mode(), err)
	}
}

// Clients use TLS 1.3, and older ones only where that is asked for.
func TestOldestTLS(t *testing.T) {
	for oldest, want := range map[string]bool{"": false, "VersionTLS12": true} {
		secured(t, t.TempDir(), hub.Options{MinTLSVersion: oldest}, func(admin *rest.Config) {
			conn, err := (&tls.Dialer{Config: &tls.Config{
				InsecureSkipVerify: true, //nolint:gosec // the version is what counts
				MaxVersion:         tls.VersionTLS12,
			}}).DialContext(context.Background(), "tcp", strings.TrimPrefix(admin.Host, "https://"))
			if err == nil {
				testkit.Must(t, conn.Close())
			}
			if (err == nil) != want {
				t.Errorf("--tls-min-version %q, a client of TLS 1.2: %v", oldest, err)
			}
		})
	}
}

// What can't be used is refused before anything is written.
func TestSecurityOptionsAreRefusedInOneLine(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	typo := filepath.Join(t.TempDir(), "typo")
	testkit.Must(t, os.WriteFile(typo, []byte("kind: Polcy\n"), 0o600))
	authentication := func(config, webhook string) hub.Options {
		return hub.Options{Authentication: controlplane.Authentication{ConfigFile: config, WebhookConfigFile: webhook}}
	}
	type notes = controlplane.Audit
	audit := func(a notes) hub.Options { return hub.Options{Audit: a} }
	for want, o := range map[string]hub.Options{
		`--encrypted-resources has "secret", which is no resource`: {EncryptedResources: []string{"secret"}},
		`--tls-min-version "VersionTLS10"`:                         {MinTLSVersion: "VersionTLS10"},
		"no such file":                                             authentication(missing, ""),
		"--authentication-config: failed to load":                  authentication(typo, ""),
		"--authentication-token-webhook-config-file ":              authentication("", missing),
		"--audit-policy-file: ":                                    audit(notes{LogPath: "-", PolicyFile: typo}),
		"nothing takes what it asks for":                           audit(notes{PolicyFile: typo}),
		"--audit-log-maxsize -1 is negative":                       audit(notes{LogPath: "-", MaxSize: -1}),
		"--tracing-config-file: ":                                  {TracingConfigFile: missing},
		"--audit-webhook-config-file ":                             audit(notes{WebhookConfigFile: missing}),
	} {
		o.DataDir, o.BindAddress = t.TempDir(), net.IPv4(127, 0, 0, 1)
		err := hub.Run(t.Context(), o, func(hub.Ready) { t.Error("the hub has started") })
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("want %s, got %v", want, err)
		}
	}
}

// Spans of requests go to a collector when that is asked for.
func TestTraces(t *testing.T) {
	c := testcollector.Start(t)
	config := testcollector.ConfigFile(t, c.Address)
	secured(t, t.TempDir(), hub.Options{TracingConfigFile: config}, func(admin *rest.Config) {
		makeSecret(t, admin, "s", "x")
		testkit.Eventually(t, func() error {
			if len(c.Spans("Create")) == 0 {
				return fmt.Errorf("the collector has the spans\n%v", c)
			}
			return nil
		})
	})
}
