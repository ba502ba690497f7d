package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
	"unicode"

	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/transport"
	"k8s.io/utils/clock"
)

// CredentialError is that of a program which should have printed credentials.
type CredentialError struct {
	// Program is the command.
	Program string
	// Output is what the program wrote to its standard error, possibly nothing.
	Output string

	cause error
}

// Error implements error.
func (e *CredentialError) Error() string {
	if e.Output == "" {
		return e.cause.Error()
	}
	return e.cause.Error() + "; the program says:\n" + e.Output
}

// Unwrap is what went wrong.
func (e *CredentialError) Unwrap() error { return e.cause }

// explainingTransport adds to the error of a credential program what the program
// says. client-go hands that to this process's own standard error, which Terraform
// hides.
type explainingTransport struct {
	next    http.RoundTripper
	program *clientcmdapi.ExecConfig

	once   sync.Once
	output string
}

// RoundTrip implements http.RoundTripper.
func (t *explainingTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(req)
	if err == nil || !strings.HasPrefix(err.Error(), "getting credentials: ") {
		return resp, err
	}
	if strings.Contains(err.Error(), "failed with exit code") {
		t.once.Do(func() { t.output = saying(context.WithoutCancel(req.Context()), t.program) })
	}
	return resp, &CredentialError{Program: t.program.Command, Output: t.output, cause: err}
}

// WrappedRoundTripper lets client-go see through the transport.
func (t *explainingTransport) WrappedRoundTripper() http.RoundTripper { return t.next }

const (
	// sayingTimeout is how long a program that has failed may take to fail again.
	sayingTimeout = 10 * time.Second
	// sayingLimit is how much of what it says is of interest, in bytes.
	sayingLimit = 2048
)

// saying runs a credential program that has failed once more, as client-go runs it,
// for the end of what it writes to its standard error. It returns nothing when the
// program succeeds this time. What it prints, which may be credentials, is dropped.
func saying(ctx context.Context, program *clientcmdapi.ExecConfig) string {
	ctx, cancel := context.WithTimeout(ctx, sayingTimeout)
	defer cancel()
	info, err := json.Marshal(map[string]any{
		"kind": "ExecCredential", "apiVersion": program.APIVersion, "spec": map[string]any{"interactive": false},
	})
	if err != nil {
		return ""
	}
	command := exec.CommandContext(ctx, program.Command, program.Args...)
	command.Env = append(os.Environ(), "KUBERNETES_EXEC_INFO="+string(info))
	for _, variable := range program.Env {
		command.Env = append(command.Env, variable.Name+"="+variable.Value)
	}
	command.WaitDelay = time.Second
	var said bytes.Buffer
	command.Stderr = &said
	if command.Run() == nil {
		return ""
	}
	text := strings.ToValidUTF8(said.String(), "")
	if len(text) > sayingLimit {
		text = "… " + strings.ToValidUTF8(text[len(text)-sayingLimit:], "")
	}
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, text))
}

// renewable reports whether the credentials may be others when they are asked for
// the next time: they come from a program or a file.
func renewable(config *rest.Config) bool {
	return config.ExecProvider != nil || config.BearerTokenFile != "" || config.AuthProvider != nil
}

// rereadingToken is the configuration with a token file that is read again as soon
// as the server refuses the token. client-go alone reads it once a minute.
func rereadingToken(config *rest.Config) *rest.Config {
	if config.BearerTokenFile == "" {
		return config
	}
	changed := rest.CopyConfig(config)
	changed.BearerToken, changed.BearerTokenFile = "", ""
	source := transport.NewCachedFileTokenSource(config.BearerTokenFile)
	changed.Wrap(transport.ResettableTokenSourceWrapTransport(source))
	return changed
}

// withoutNeedlessCompression is the configuration without compressed answers where
// the server is on this machine: there compressing costs more than it saves.
func withoutNeedlessCompression(config *rest.Config) *rest.Config {
	server, err := url.Parse(config.Host)
	if err != nil {
		return config
	}
	if name := server.Hostname(); name != "localhost" && !net.ParseIP(name).IsLoopback() {
		return config
	}
	config = rest.CopyConfig(config)
	config.DisableCompression = true
	return config
}

// Exchange is one request and what came of it. It holds neither bodies nor
// headers, so that it can be logged.
type Exchange struct {
	Method, Path string
	// Status is that of the answer; 0 when there was none.
	Status int
	// Err is why there was none.
	Err      error
	Duration time.Duration
}

// observingTransport reports each exchange, repeated ones included.
type observingTransport struct {
	next    http.RoundTripper
	clock   clock.PassiveClock
	observe func(context.Context, Exchange)
}

// RoundTrip implements http.RoundTripper.
func (t *observingTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	began := t.clock.Now()
	resp, err := t.next.RoundTrip(req)
	exchange := Exchange{Method: req.Method, Path: req.URL.Path, Err: err, Duration: t.clock.Since(began)}
	if err == nil {
		exchange.Status = resp.StatusCode
	}
	t.observe(req.Context(), exchange)
	return resp, err
}

// oneConnection lets the first request go alone. Those that come meanwhile, of a plan
// ten at a time, find its connection and share it; otherwise each would make one of
// its own, with a handshake, before it learns that one is enough.
type oneConnection struct {
	next    http.RoundTripper
	once    sync.Once
	answers chan struct{} // closed when the first request was answered
}

func newOneConnection(next http.RoundTripper) http.RoundTripper {
	return &oneConnection{next: next, answers: make(chan struct{})}
}

// RoundTrip implements http.RoundTripper.
func (t *oneConnection) RoundTrip(req *http.Request) (*http.Response, error) {
	first := false
	t.once.Do(func() { first = true })
	if first {
		defer close(t.answers)
		return t.next.RoundTrip(req)
	}
	select {
	case <-t.answers:
		return t.next.RoundTrip(req)
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
}
