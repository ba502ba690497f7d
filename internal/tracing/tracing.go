// Package tracing sends spans of OpenTelemetry from the provider and from agents, and
// hands a trace on from one of them to the other: in the header traceparent of requests,
// and as a text.
//
// Nobody waits for a collector: spans are sent beside the work, and dropped when the
// collector does not take them. What speaks OTLP is here, and not the exporter of
// OpenTelemetry's own: that brings gRPC, which makes an agent a third larger.
//
// It imports nothing of muster.
package tracing

import (
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

const (
	// scope says of a span who made it.
	scope = "github.com/muster-fleet/terraform-provider-muster"
	// sendEvery is how long a span waits for others to be sent with.
	sendEvery = time.Second
	// flushTimeout is how long the end of a process may wait for the collector.
	flushTimeout = time.Second
)

// Attributes of spans.
const (
	ResourceTypeKey = attribute.Key("terraform.resource.type")
	ObjectKindKey   = attribute.Key("k8s.object.kind")
	ObjectNameKey   = attribute.Key("k8s.object.name")
	NamespaceKey    = attribute.Key("k8s.namespace.name")
	ClusterKey      = attribute.Key("k8s.cluster.name")
	GenerationKey   = attribute.Key("k8s.object.generation")
	ManifestsKey    = attribute.Key("muster.manifests")
	FailedKey       = attribute.Key("muster.manifests.failed")
)

// Service is who sends the spans. The environment may name it otherwise, by
// OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES.
type Service struct {
	Name, Version string
	// Warn gets, once for each outage, why spans were dropped.
	Warn func(problem string)
}

// Provider begins traces. Nil begins none.
type Provider struct {
	// Parent is the span that the environment names as the one of the whole process;
	// invalid without one.
	Parent trace.SpanContext

	sdk      *sdktrace.TracerProvider
	exporter *exporter
}

// newProvider makes a Provider that sends to a collector. Without a sampler that of the
// environment counts.
func newProvider(to *collector, of Service, sampler sdktrace.Sampler) (*Provider, error) {
	described, err := resource.New(context.Background(),
		resource.WithAttributes(
			attribute.String("service.name", of.Name), attribute.String("service.version", of.Version)),
		resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("read OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	e := &exporter{SpanExporter: otlptrace.NewUnstarted(to), warn: of.Warn, collector: to.name}
	options := []sdktrace.TracerProviderOption{
		sdktrace.WithResource(described), sdktrace.WithBatcher(e, sdktrace.WithBatchTimeout(sendEvery)),
	}
	if sampler != nil {
		options = append(options, sdktrace.WithSampler(sampler))
	}
	return &Provider{sdk: sdktrace.NewTracerProvider(options...), exporter: e}, nil
}

// Begin begins a span in the trace of a parent, or a trace where the parent is invalid.
func (p *Provider) Begin(
	ctx context.Context, parent trace.SpanContext, name string, attributes ...attribute.KeyValue,
) (context.Context, trace.Span) {
	if p == nil {
		return ctx, trace.SpanFromContext(context.Background())
	}
	ctx = trace.ContextWithRemoteSpanContext(ctx, parent)
	return p.sdk.Tracer(scope).Start(ctx, name, trace.WithAttributes(attributes...))
}

// Close sends what was not sent yet. It gives up after a second.
func (p *Provider) Close() {
	if p == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	if err := p.sdk.Shutdown(ctx); err != nil {
		p.exporter.report(err)
	}
}

// Start begins a span within that of the context. Without one it does nothing.
func Start(ctx context.Context, name string, attributes ...attribute.KeyValue) (context.Context, trace.Span) {
	return trace.SpanFromContext(ctx).TracerProvider().Tracer(scope).Start(ctx, name,
		trace.WithAttributes(attributes...))
}

// End ends a span. An error marks it as failed; its text stays out of the span, as it may
// quote what users have written.
func End(span trace.Span, err error, problem string) {
	if err != nil {
		span.SetStatus(codes.Error, problem)
	}
	span.End()
}

// exporter reports the first failure of several in a row, and fails nothing.
type exporter struct {
	sdktrace.SpanExporter
	collector string
	warn      func(string)
	failing   atomic.Bool
}

// ExportSpans implements sdktrace.SpanExporter.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if err := e.SpanExporter.ExportSpans(ctx, spans); err != nil {
		e.report(err)
	} else {
		e.failing.Store(false)
	}
	return nil
}

func (e *exporter) report(err error) {
	if !e.failing.Swap(true) {
		e.warn(fmt.Sprintf("spans are dropped, as the collector at %s did not take them: %v", e.collector, err))
	}
}

// share samples a share of the traces, from 0 to 1. Chance decides, and not the trace's ID,
// which whoever begins the trace chooses.
type share float64

// sampling keeps to a share also where the parent, which others name, is sampled. What is
// within a span of this process is sampled as that is.
func sampling(s share) sdktrace.Sampler {
	return sdktrace.ParentBased(s, sdktrace.WithRemoteParentSampled(s))
}

// ShouldSample implements sdktrace.Sampler.
func (s share) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	result := sdktrace.SamplingResult{Tracestate: trace.SpanContextFromContext(p.ParentContext).TraceState()}
	if rand.Float64() < float64(s) { //nolint:gosec // no secret depends on it
		result.Decision = sdktrace.RecordAndSample
	}
	return result
}

// Description implements sdktrace.Sampler.
func (s share) Description() string { return fmt.Sprintf("Share{%g}", float64(s)) }

// The parts of a traceparent of version 00: 00-TRACE-SPAN-FLAGS.
const (
	traceAt, spanAt, flagsAt, length = 3, 36, 53, 55
)

// Parent reads a traceparent of W3C's Trace Context. It takes version 00 with IDs that are
// not zero; anything else is invalid. Flags beside "sampled" are left out.
func Parent(text string) trace.SpanContext {
	if len(text) != length || text[:traceAt] != "00-" || text[spanAt-1] != '-' || text[flagsAt-1] != '-' {
		return trace.SpanContext{}
	}
	traceID, errTrace := trace.TraceIDFromHex(text[traceAt : spanAt-1])
	spanID, errSpan := trace.SpanIDFromHex(text[spanAt : flagsAt-1])
	flags, errFlags := hex.DecodeString(text[flagsAt:])
	if errTrace != nil || errSpan != nil || errFlags != nil || hex.EncodeToString(flags) != text[flagsAt:] {
		return trace.SpanContext{}
	}
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: traceID, SpanID: spanID, TraceFlags: trace.TraceFlags(flags[0]) & trace.FlagsSampled, Remote: true,
	})
}

// Traceparent is the span of the context for others to continue: what Parent reads. It is
// empty where there is none.
func Traceparent(ctx context.Context) string {
	span := trace.SpanContextFromContext(ctx)
	if !span.IsValid() {
		return ""
	}
	return fmt.Sprintf("00-%s-%s-%s", span.TraceID(), span.SpanID(), span.TraceFlags()&trace.FlagsSampled)
}

// IsSampled reports whether the span of the context is sent.
func IsSampled(ctx context.Context) bool { return trace.SpanContextFromContext(ctx).IsSampled() }

// Transport puts the span of a request's context into its header traceparent.
func Transport(next http.RoundTripper) http.RoundTripper { return transport{next} }

type transport struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if text := Traceparent(req.Context()); text != "" {
		req = req.Clone(req.Context())
		req.Header.Set("Traceparent", text)
	}
	return t.next.RoundTrip(req)
}

// WrappedRoundTripper lets client-go see through the transport.
func (t transport) WrappedRoundTripper() http.RoundTripper { return t.next }
