// Command benchprovider measures what the provider costs beside Terraform itself:
// many objects are created, planned, updated and destroyed by a real Terraform
// against a real hub, and the same is done with a provider that does nothing (its
// folder noop), in turns. It prints the ratios, the requests that reached the
// hub, and the size of the state.
package main

import (
	"context"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/restmapper"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testhub"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// options are what the command line says.
type options struct {
	muster, provider, noop, terraform string
	objects, works, rounds            int
}

func main() {
	var o options
	flag.StringVar(&o.muster, "muster", "bin/muster", "the program of the hub")
	flag.StringVar(&o.provider, "provider", "bin/terraform-provider-muster", "the provider to measure")
	flag.StringVar(&o.noop, "noop", "bin/terraform-provider-noop", "the provider that does nothing")
	flag.StringVar(&o.terraform, "terraform", "terraform", "the Terraform or OpenTofu to measure with")
	flag.IntVar(&o.objects, "objects", 500, "how many cluster sets; 0 leaves them out")
	flag.IntVar(&o.works, "works", 100, "how many manifest works; 0 leaves them out")
	flag.IntVar(&o.rounds, "rounds", 3, "how often everything is measured; the medians count")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := bench(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

func bench(ctx context.Context, o options) error {
	dir, err := os.MkdirTemp("", "muster-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for _, program := range []*string{&o.muster, &o.provider, &o.noop} {
		if *program, err = filepath.Abs(*program); err != nil {
			return err
		}
		if _, err := os.Stat(*program); err != nil {
			return fmt.Errorf("find the programs: %w: run \"make bench-provider\", which builds them", err)
		}
	}
	hub, err := testhub.StartHub(o.muster, filepath.Join(dir, "hub"))
	if err != nil {
		return err
	}
	defer func() { _ = hub.Stop() }()
	proxy, err := newProxy(hub.Kubeconfig)
	if err != nil {
		return err
	}
	defer proxy.close()
	tf, err := newTerraform(ctx, o, dir, hub.Kubeconfig)
	if err != nil {
		return err
	}
	tf.hub = hub.PID()
	if err := acceptCluster(ctx, hub.Kubeconfig); err != nil {
		return fmt.Errorf("accept a cluster for the works: %w", err)
	}
	fmt.Printf("%s, median of %d rounds\n", tf.version, o.rounds)
	for _, w := range []workload{clusterSets(o.objects), manifestWorks(o.works)} {
		if w.objects == 0 {
			continue
		}
		result, err := w.measure(ctx, tf, proxy, o.rounds)
		if err != nil {
			return err
		}
		result.print(os.Stdout)
	}
	return nil
}

// workload is a kind of object, many times.
type workload struct {
	what    string
	objects int
	// resource is the resource's name without the provider's, and body its HCL; the
	// variable "text" in it is changed by the update.
	resource, body string
}

func clusterSets(objects int) workload {
	return workload{what: "cluster sets", objects: objects, resource: "managed_cluster_set", body: `
  name   = "bench-${count.index}"
  labels = { bench = var.text }
`}
}

func manifestWorks(objects int) workload {
	return workload{what: "manifest works", objects: objects, resource: "manifest_work", body: `
  managed_cluster = "bench"
  name            = "bench-${count.index}"
  objects = [{
    apiVersion = "v1", kind = "ConfigMap"
    metadata = { name = "bench-${count.index}", namespace = "default" }
    data = { text = var.text }
  }]
`}
}

// config is the workload as the configuration of a provider.
func (w workload) config(provider string) string {
	return fmt.Sprintf(`terraform {
  required_providers {
    %[1]s = { source = "muster-fleet/%[1]s" }
  }
}

variable "text" { type = string }

resource "%[1]s_%[2]s" "bench" {
  count = %[3]d
%[4]s
}
`, provider, w.resource, w.objects, strings.Trim(w.body, "\n"))
}

// requests are what a client has sent.
type requests struct {
	gets, lists, watches, dryRuns, writes, connections int
	// answered is how many bytes came back.
	answered int64
}

// proxy stands in front of the hub and counts. It lends its clients its own rights.
type proxy struct {
	server *httptest.Server

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
	p := &proxy{}
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
	case r.Method == http.MethodGet && (strings.HasSuffix(r.URL.Path, "/managedclustersets") ||
		strings.HasSuffix(r.URL.Path, "/manifestworks")):
		p.seen.lists++
	case r.Method == http.MethodGet:
		p.seen.gets++
	case query.Has("dryRun"):
		p.seen.dryRuns++
	default:
		p.seen.writes++
	}
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

// acceptCluster makes an accepted cluster and its namespace, for works.
func acceptCluster(ctx context.Context, kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	c, err := client.New(config, client.Options{Scheme: api.Scheme(), Mapper: restmapper.Static()})
	if err != nil {
		return err
	}
	called := metav1.ObjectMeta{Name: "bench"}
	mc := &clusterv1.ManagedCluster{ObjectMeta: called}
	mc.Spec.HubAcceptsClient = ptr.To(true)
	return errors.Join(c.Create(ctx, mc), client.IgnoreAlreadyExists(c.Create(ctx, &corev1.Namespace{ObjectMeta: called})))
}
