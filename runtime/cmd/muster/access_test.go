package main

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/useraccess"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// A credential is used while more than a fifth of its life is left, and only from a
// file that nobody else can read.
func TestKeptCredentials(t *testing.T) {
	now := time.Now()
	write := func(kept keptCredential, mode os.FileMode) string {
		text, err := json.Marshal(kept)
		testkit.Must(t, err)
		path := filepath.Join(t.TempDir(), "x.json")
		testkit.Must(t, os.WriteFile(path, text, mode))
		return path
	}
	kept := keptCredential{Credential: useraccess.Credential{Token: "t", NotAfter: now.Add(10 * time.Hour)}, Since: now}
	if _, ok := readKept(write(kept, 0o600), now.Add(7*time.Hour)); !ok {
		t.Error("a good credential is not used")
	}
	if _, ok := readKept(write(kept, 0o600), now.Add(9*time.Hour)); ok {
		t.Error("a credential is used until its end")
	}
	if _, ok := readKept(write(kept, 0o644), now); ok {
		t.Error("a credential that others can read is used")
	}
	empty := filepath.Join(t.TempDir(), "x.json")
	testkit.Must(t, os.WriteFile(empty, []byte("{"), 0o600))
	if _, ok := readKept(empty, now); ok {
		t.Error("half a file is a credential")
	}
	if e := kept.execCredential(); e.Status.Token != "t" || !e.Status.ExpirationTimestamp.Time.Before(kept.NotAfter) || e.APIVersion != "client.authentication.k8s.io/v1" {
		t.Errorf("for kubectl: %+v", e)
	}
}

// A token that its cluster does not take any more is not used, and one of a cluster
// that does not answer is.
func TestVoidTokensAreNotUsed(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer good" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	for _, tc := range []struct {
		token, url string
		want       bool
	}{{"good", server.URL, true}, {"void", server.URL, false}, {"void", "https://127.0.0.1:1", true}, {"", server.URL, true}} {
		kept := keptCredential{Credential: useraccess.Credential{Token: tc.token, Endpoint: v1alpha1.Endpoint{URL: tc.url, CABundle: ca}}}
		if got := kept.isTaken(t.Context()); got != tc.want {
			t.Errorf("the token %q of %s is taken: %v", tc.token, tc.url, got)
		}
	}
}

// Of two that want a credential at the same moment, the second waits for the first.
func TestLockKeepsOthersOut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lock(t.Context(), path)
	testkit.Must(t, err)
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := lock(short, path); err == nil || !strings.Contains(err.Error(), "another muster") {
		t.Errorf("two have the lock: %v", err)
	}
	unlock()
	again, err := lock(t.Context(), path)
	testkit.Must(t, err)
	again()
}

// The hub's own kubeconfig is waited for through 202, with the clusters that are
// missing.
func TestHubMadeKubeconfigIsWaitedFor(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/apis/muster-fleet.io/v1alpha1/namespaces/team-a/logicalclouds/prod/kubeconfig" || r.URL.Query().Get("user") != "jo" {
			http.Error(w, `{"message":"no such thing"}`, http.StatusNotFound)
			return
		}
		if asked.Add(1) == 1 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusAccepted)
			_, _ = io.WriteString(w, `{"missing":[{"name":"paris","message":"its agent is offline"}]}`)
			return
		}
		_, _ = io.WriteString(w, "kind: Config")
	}))
	t.Cleanup(server.Close)
	var said strings.Builder
	session := func(user string) *accessSession {
		return &accessSession{
			config: &rest.Config{Host: server.URL}, progress: &said,
			flags: &accessFlags{cloud: "team-a/prod", namespace: "team-a", cloudName: "prod", user: user},
		}
	}
	if _, err := session("jo").hubMade(t.Context(), false); err == nil || !strings.Contains(err.Error(), "paris (its agent is offline)") {
		t.Errorf("without a wait: %v", err)
	}
	asked.Store(0)
	text, err := session("jo").hubMade(t.Context(), true)
	if err != nil || string(text) != "kind: Config" || !strings.Contains(said.String(), "missing are paris (its agent is offline)") {
		t.Errorf("got %q, %v, said %q", text, err, said.String())
	}
	if _, err := session("al").hubMade(t.Context(), true); err == nil || !strings.Contains(err.Error(), "no such thing") {
		t.Errorf("a refusal: %v", err)
	}
}

func TestAccessFlags(t *testing.T) {
	for want, f := range map[string]accessFlags{
		"say which logical cloud":               {timeout: time.Second},
		`"prod" does not name`:                  {cloud: "prod", timeout: time.Second},
		"--ttl: 1s is not a lifetime of access": {cloud: "a/b", ttl: time.Second, timeout: time.Second},
		`--mode is "x"`:                         {cloud: "a/b", mode: "x", timeout: time.Second},
		"--timeout is 0s, and has to be":        {cloud: "a/b"},
	} {
		if err := f.check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
