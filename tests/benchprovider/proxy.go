package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// requests are what a client has sent.
type requests struct {
	gets, lists, watches, dryRuns, writes, connections int
	// answered is how many bytes came back.
	answered int64
}

// proxy stands in front of the hub and counts. It lends its clients its own rights.
type proxy struct {
	hub       string
	transport http.RoundTripper
	server    *httptest.Server

	mu   sync.Mutex
	seen requests
}

func newProxy(kubeconfig string) (*proxy, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	to, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	p := &proxy{hub: config.Host, transport: transport}
	forward := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(to); r.Out.Header.Del("Authorization") },
		Transport:     transport,
		FlushInterval: -1,
	}
	p.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.count(r)
		forward.ServeHTTP(&countingWriter{ResponseWriter: w, proxy: p}, r)
	}))
	p.server.EnableHTTP2 = true
	p.server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.seen.connections++
		}
	}
	p.server.StartTLS()
	return p, nil
}

func (p *proxy) close() { p.server.CloseClientConnections(); p.server.Close() }

// env leads the provider to the proxy.
func (p *proxy) env() []string {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.server.Certificate().Raw})
	return []string{"MUSTER_KUBECONFIG=", "MUSTER_HOST=" + p.server.URL, "MUSTER_CLUSTER_CA_CERTIFICATE=" + string(ca), "MUSTER_TOKEN=bench"}
}

func (p *proxy) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = requests{}
}

func (p *proxy) counted() requests {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen
}

func (p *proxy) count(r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	query := r.URL.Query()
	switch {
	case r.Method == http.MethodGet && query.Has("watch"):
		p.seen.watches++
	case r.Method == http.MethodGet && isList(r.URL.Path):
		p.seen.lists++
	case r.Method == http.MethodGet:
		p.seen.gets++
	case query.Has("dryRun"):
		p.seen.dryRuns++
	default:
		p.seen.writes++
	}
}

// isList reports whether a path names a collection of the kinds that the benchmark
// has.
func isList(path string) bool {
	for _, kind := range []string{"/managedclustersets", "/manifestworks"} {
		if len(path) > len(kind) && path[len(path)-len(kind):] == kind {
			return true
		}
	}
	return false
}

// countingWriter counts the bytes of an answer.
type countingWriter struct {
	http.ResponseWriter
	proxy *proxy
}

// Write implements io.Writer.
func (w *countingWriter) Write(b []byte) (int, error) {
	w.proxy.mu.Lock()
	w.proxy.seen.answered += int64(len(b))
	w.proxy.mu.Unlock()
	return w.ResponseWriter.Write(b)
}

// Unwrap lets the reverse proxy flush.
func (w *countingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// acceptCluster makes an accepted cluster and its namespace.
func (p *proxy) acceptCluster(ctx context.Context, name string) error {
	for path, object := range map[string]any{
		"/apis/cluster.open-cluster-management.io/v1/managedclusters": map[string]any{
			"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
			"metadata": map[string]any{"name": name}, "spec": map[string]any{"hubAcceptsClient": true},
		},
		"/api/v1/namespaces": map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}},
	} {
		if err := p.create(ctx, path, object); err != nil {
			return fmt.Errorf("accept cluster %q: %w", name, err)
		}
	}
	return nil
}

// create posts an object to the hub; one that is there already is not an error.
func (p *proxy) create(ctx context.Context, path string, object any) error {
	body, err := json.Marshal(object)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.hub+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := p.transport.RoundTrip(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusCreated && answer.StatusCode != http.StatusConflict {
		text, _ := io.ReadAll(answer.Body)
		return fmt.Errorf("%s: %s", answer.Status, text)
	}
	return nil
}
