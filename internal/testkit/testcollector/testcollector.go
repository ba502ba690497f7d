// Package testcollector is a collector of OpenTelemetry for tests: it takes spans by gRPC
// and remembers them.
package testcollector

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// Collector is one that is running.
type Collector struct {
	collectorpb.UnimplementedTraceServiceServer
	// Address is its host and port.
	Address string

	mu    sync.Mutex
	spans []Span
}

// Span is one that was sent.
type Span struct {
	*tracepb.Span
	// Service is who has sent it, and Header what came with the request.
	Service string
	Header  metadata.MD
}

// Trace is the ID of the span's trace, and ID its own, Parent that of the span that it is in,
// all in hexadecimal digits.
func (s Span) Trace() string { return fmt.Sprintf("%x", s.TraceId) }

// ID is the span's, in hexadecimal digits.
func (s Span) ID() string { return fmt.Sprintf("%x", s.SpanId) }

// Parent is the ID of the span that it is in; empty for the first one of a trace.
func (s Span) Parent() string { return fmt.Sprintf("%x", s.ParentSpanId) }

// Attribute is an attribute's value as text; empty where there is none.
func (s Span) Attribute(key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			if n, isNumber := a.Value.Value.(*commonpb.AnyValue_IntValue); isNumber {
				return fmt.Sprint(n.IntValue)
			}
			return a.Value.GetStringValue()
		}
	}
	return ""
}

// Start starts a collector, which ends with the test.
func Start(t testing.TB) *Collector {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &Collector{Address: listener.Addr().String()}
	server := grpc.NewServer()
	collectorpb.RegisterTraceServiceServer(server, c)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return c
}

// Silent is the address of a collector that takes connections and never answers. It ends
// with the test.
func Silent(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String() // the system takes connections that nobody accepts
}

// ConfigFile is a TracingConfiguration that sends all traces to a collector.
func ConfigFile(t testing.TB, address string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tracing.yaml")
	err := os.WriteFile(path, fmt.Appendf(nil, `apiVersion: apiserver.config.k8s.io/v1
kind: TracingConfiguration
endpoint: %s
samplingRatePerMillion: 1000000
`, address), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Export implements the collector's service.
func (c *Collector) Export(
	ctx context.Context, r *collectorpb.ExportTraceServiceRequest,
) (*collectorpb.ExportTraceServiceResponse, error) {
	header, _ := metadata.FromIncomingContext(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, from := range r.ResourceSpans {
		service := ""
		for _, a := range from.Resource.GetAttributes() {
			if a.Key == "service.name" {
				service = a.Value.GetStringValue()
			}
		}
		for _, part := range from.ScopeSpans {
			for _, span := range part.Spans {
				c.spans = append(c.spans, Span{span, service, header})
			}
		}
	}
	return &collectorpb.ExportTraceServiceResponse{}, nil
}

// Spans are those that were sent so far and are called so, or all with no name.
func (c *Collector) Spans(name string) []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []Span
	for _, span := range c.spans {
		if name == "" || span.Name == name {
			found = append(found, span)
		}
	}
	return found
}

// String lists the spans.
func (c *Collector) String() string {
	text := ""
	for _, s := range c.Spans("") {
		text += fmt.Sprintf("%s %s in %s/%s\n", s.Service, s.Name, s.Trace(), s.Parent())
	}
	return text
}
