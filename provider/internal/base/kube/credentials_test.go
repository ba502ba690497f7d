package kube

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
)

const aNamespace = `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"shop"}}`

// namespaces is a client of namespaces at the server.
func namespaces(t *testing.T, connection Connection, budget time.Duration) *Client {
	t.Helper()
	config, err := connection.RESTConfig()
	if err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Namespace"), meta.RESTScopeRoot)
	client, err := New(config, Options{Scheme: scheme, Mapper: mapper, RetryBudget: budget})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// secure is a TLS server: credentials are only sent to such.
func secure(t *testing.T, handler http.HandlerFunc) (*httptest.Server, Connection) {
	t.Helper()
	server := httptest.NewTLSServer(handler)
	t.Cleanup(server.Close)
	return server, Connection{Host: server.URL, Insecure: true}
}

// A token that is renewed in its file is read again when the server no longer takes
// the one from before: by the same request.
func TestARotatedTokenIsReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	write := func(token string) {
		if err := os.WriteFile(path, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first")
	valid, asked := "first", 0
	server, _ := secure(t, func(w http.ResponseWriter, r *http.Request) {
		asked++
		w.Header().Set("Content-Type", "application/json")
		if r.Header.Get("Authorization") != "Bearer "+valid {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte(aNamespace))
	})
	client := namespaces(t, Connection{Kubeconfig: `{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}],
  clusters: [{name: a, cluster: {server: "` + server.URL + `", insecure-skip-tls-verify: true}}], users: [{name: a, user: {tokenFile: "` + path + `"}}]}`}, time.Second)
	get := func() error { return client.Get(t.Context(), &corev1.Namespace{}, "", "shop") }
	if err := get(); err != nil {
		t.Fatal(err)
	}
	valid = "second"
	write(valid)
	if err := get(); err != nil {
		t.Errorf("the new token was not read: %v", err)
	}
	valid, asked = "third", 0 // and nobody writes it
	if err := get(); err == nil || asked != 2 {
		t.Errorf("got %v after %d requests", err, asked)
	}
}

func TestAFixedTokenIsRefusedOnce(t *testing.T) {
	asked := 0
	_, connection := secure(t, func(w http.ResponseWriter, _ *http.Request) { asked++; w.WriteHeader(http.StatusUnauthorized) })
	connection.Token = "wrong"
	if err := namespaces(t, connection, time.Second).Get(t.Context(), &corev1.Namespace{}, "", "shop"); err == nil || asked != 1 {
		t.Errorf("got %v after %d requests", err, asked)
	}
}

func TestACredentialProgramThatFailsIsHeard(t *testing.T) {
	_, connection := secure(t, func(http.ResponseWriter, *http.Request) { t.Error("a request was sent without credentials") })
	for name, test := range map[string]struct{ script, want, not string }{
		"words":    {script: `echo '{"token":"hunter2"}'; echo "no credentials for you, $WHO: log in first" >&2; exit 3`, want: "failed with exit code 3; the program says:\nno credentials for you, joe: log in first", not: "hunter2"},
		"nothing":  {script: `exit 3`, want: "failed with exit code 3", not: "the program says"},
		"colours":  {script: `printf '\033[31mred\033[0m' >&2; exit 1`, want: "[31mred", not: "\033"},
		"too much": {script: `yes x | head -c 100000 >&2; echo the-end >&2; exit 1`, want: "the-end"},
	} {
		t.Run(name, func(t *testing.T) {
			connection.Exec = &Exec{APIVersion: "client.authentication.k8s.io/v1", Command: "sh", Args: []string{"-c", test.script}, Env: map[string]string{"WHO": "joe"}}
			err := namespaces(t, connection, time.Minute).Get(t.Context(), &corev1.Namespace{}, "", "shop")
			var program *CredentialError
			if !errors.As(err, &program) || program.Program != "sh" || !strings.Contains(err.Error(), test.want) || len(err.Error()) > 4000 {
				t.Errorf("got %v", err)
			}
			if test.not != "" && strings.Contains(err.Error(), test.not) {
				t.Errorf("got %q", err)
			}
		})
	}
	connection.Exec.Command = "/nowhere/program"
	if err := namespaces(t, connection, time.Minute).Get(t.Context(), &corev1.Namespace{}, "", "shop"); err == nil || !strings.Contains(err.Error(), "/nowhere/program") {
		t.Errorf("got %v", err)
	}
}

// A program that wants a terminal is refused: Terraform has it.
func TestACredentialProgramGetsNoTerminal(t *testing.T) {
	_, connection := secure(t, func(http.ResponseWriter, *http.Request) {})
	kubeconfig := `{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}],
  clusters: [{name: a, cluster: {server: "` + connection.Host + `", insecure-skip-tls-verify: true}}], users: [{name: a, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: sh, interactiveMode: Always}}}]}`
	err := namespaces(t, Connection{Kubeconfig: kubeconfig}, time.Minute).Get(t.Context(), &corev1.Namespace{}, "", "shop")
	if err == nil || !strings.Contains(err.Error(), "cannot support interactive mode") {
		t.Errorf("got %v", err)
	}
}

// A time-out that is shorter than the patience with the server says why there was no
// answer.
func TestAnEndedRequestSaysWhyThereWasNoAnswer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	client := namespaces(t, Connection{Host: "https://" + address, Insecure: true}, time.Minute)
	for name, do := range map[string]func(context.Context) error{
		"read": func(ctx context.Context) error { return client.Get(ctx, &corev1.Namespace{}, "", "shop") },
		"wait": func(ctx context.Context) error { return client.WaitGone(ctx, &corev1.Namespace{}, "", "shop", "") },
	} {
		var err error
		for timeout := 300 * time.Millisecond; timeout < time.Minute; timeout *= 4 {
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			err = do(ctx)
			cancel()
			if strings.Contains(fmt.Sprint(err), "connection refused") {
				break // else the machine was too busy for a first attempt
			}
		}
		if !IsUnanswered(err) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := client.Get(ctx, &corev1.Namespace{}, "", "shop"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// Clients with another patience share the connection.
func TestClientsOfOneServerShareItsConnection(t *testing.T) {
	var connections atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(aNamespace))
	}))
	server.EnableHTTP2 = true
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	patient := namespaces(t, Connection{Host: server.URL, Insecure: true}, time.Minute)
	for range 5 {
		for _, client := range []*Client{patient, patient.WithRetryBudget(time.Millisecond), patient.WithRetryBudget(time.Second)} {
			if err := client.Get(t.Context(), &corev1.Namespace{}, "", "shop"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := connections.Load(); got != 1 {
		t.Errorf("%d connections", got)
	}
}
