package tracing

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testcollector"
)

const (
	traceID     = "4bf92f3577b34da6a3ce929d0e0e4736"
	spanID      = "00f067aa0ba902b7"
	traceparent = "00-" + traceID + "-" + spanID + "-01"
)

func TestParent(t *testing.T) {
	zeros := strings.Repeat("0", 32)
	for text, want := range map[string]string{
		traceparent:                                traceparent,
		"00-" + traceID + "-" + spanID + "-00":     "00-" + traceID + "-" + spanID + "-00",
		"00-" + traceID + "-" + spanID + "-03":     traceparent, // sampled and random
		"00-" + traceID + "-" + spanID + "-fe":     "00-" + traceID + "-" + spanID + "-00",
		"":                                         "",
		"00":                                       "",
		"01-" + traceID + "-" + spanID + "-01":     "", // a later version
		"ff-" + traceID + "-" + spanID + "-01":     "",
		"00-" + zeros + "-" + spanID + "-01":       "",
		"00-" + traceID + "-" + zeros[:16] + "-01": "",
		"00-" + strings.ToUpper(traceID) + "-" + spanID + "-01":   "",
		"00-" + traceID + "-" + strings.ToUpper(spanID) + "-01":   "",
		"00-" + traceID + "-" + spanID + "-FE":                    "",
		"00-" + traceID + "-" + spanID + "-0g":                    "",
		"00-" + traceID + "-" + spanID:                            "",
		traceparent + "-x":                                        "",
		traceparent + " ":                                         "",
		" " + traceparent[:54]:                                    "",
		"00_" + traceID + "-" + spanID + "-01":                    "",
		"00-" + traceID + "_" + spanID + "-01":                    "",
		"00-" + traceID + "-" + spanID + "_01":                    "",
		"00-" + traceID[:31] + "\n-" + spanID + "-01":             "",
		"00-" + traceID + spanID + "-" + traceID + spanID + "-01": "",
		strings.Repeat(traceparent, 20000):                        "",
		"00-" + traceID[:30] + "\xc3\xa9" + "-" + spanID + "-01":  "",
	} {
		span := Parent(text)
		if got := Traceparent(trace.ContextWithRemoteSpanContext(t.Context(), span)); got != want {
			t.Errorf("%.70q: got %q, want %q", text, got, want)
		}
		if span.IsValid() && !span.IsRemote() {
			t.Errorf("%q is not remote", text)
		}
	}
}

func service(warn func(string)) Service { return Service{Name: "test", Version: "1", Warn: warn} }

// variables are an environment.
func variables(of map[string]string) func(string) string {
	return func(name string) string { return of[name] }
}

// Without being asked there are no traces, and nothing that would cost anything.
func TestOffUnlessAsked(t *testing.T) {
	at := func(url string, more ...string) map[string]string {
		of := map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": url}
		for _, variable := range more {
			name, value, _ := strings.Cut(variable, "=")
			of[name] = value
		}
		return of
	}
	const url = "http://localhost:4317"
	for name, test := range map[string]struct {
		environment map[string]string
		on          bool
		problem     string
	}{
		"nothing":         {nil, false, ""},
		"a parent alone":  {at("", "TRACEPARENT="+traceparent), false, ""},
		"an exporter":     {at("", "OTEL_TRACES_EXPORTER=otlp"), false, ""},
		"an endpoint":     {at(url), true, ""},
		"one for traces":  {at("", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=https://x:4317"), true, ""},
		"no scheme":       {at("localhost:4317"), true, ""},
		"disabled":        {at(url, "OTEL_SDK_DISABLED=TRUE"), false, ""},
		"not disabled":    {at(url, "OTEL_SDK_DISABLED=no"), true, ""},
		"no exporter":     {at(url, "OTEL_TRACES_EXPORTER=none"), false, ""},
		"another one":     {at(url, "OTEL_TRACES_EXPORTER=zipkin"), false, `is "zipkin"`},
		"another scheme":  {at("ftp://u:secret@localhost"), false, "is not the URL of a collector"},
		"no URL":          {at("http://u:secret@[::1"), false, "is not the URL of a collector"},
		"JSON":            {at(url, "OTEL_EXPORTER_OTLP_PROTOCOL=http/json"), false, "use grpc or http/protobuf"},
		"no such file":    {at(url, "OTEL_EXPORTER_OTLP_CERTIFICATE=/nowhere"), false, "no such file"},
		"a header":        {at(url, "OTEL_EXPORTER_OTLP_HEADERS=a=b%20c, d = e"), true, ""},
		"a broken header": {at(url, "OTEL_EXPORTER_OTLP_HEADERS=a=b,secret"), false, "entry 2 is not NAME=VALUE"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := FromEnvironment(variables(test.environment), service(nil))
			p.Close()
			if (p != nil) != test.on || (err != nil) != (test.problem != "") {
				t.Fatalf("got %v, %v", p, err)
			}
			if err != nil && (!strings.Contains(err.Error(), test.problem) || strings.Contains(err.Error(), "secret")) {
				t.Errorf("got %q", err)
			}
		})
	}
}

// Spans arrive at a real gRPC server, in the trace that the environment names.
func TestGRPC(t *testing.T) {
	c := testcollector.Start(t)
	p, err := FromEnvironment(variables(map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + c.Address, "TRACEPARENT": traceparent,
		"OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20x",
	}), service(func(problem string) { t.Error(problem) }))
	testkit.Must(t, err)
	ctx, outer := p.Begin(t.Context(), p.Parent, "outer", ResourceTypeKey.String("muster_x"))
	_, inner := Start(ctx, "inner")
	End(inner, errors.New("secret"), "not met")
	End(outer, nil, "")
	p.Close()
	if len(c.Spans("")) != 2 {
		t.Fatalf("got %v", c)
	}
	is, was := c.Spans("inner")[0], c.Spans("outer")[0]
	if was.Trace() != traceID || was.Parent() != spanID || is.Trace() != traceID || is.Parent() != was.ID() {
		t.Errorf("got\n%v", c)
	}
	if was.Service != "test" || was.Attribute("terraform.resource.type") != "muster_x" || was.Status.GetCode() != 0 {
		t.Errorf("got %v", was)
	}
	if is.Status.GetCode() != tracepb.Status_STATUS_CODE_ERROR || is.Status.GetMessage() != "not met" {
		t.Errorf("got %v", is)
	}
	if got := was.Header.Get("authorization"); len(got) != 1 || got[0] != "Bearer x" {
		t.Errorf("got the header %q", got)
	}
}

func TestHTTP(t *testing.T) {
	for variable, path := range map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT":        "/base/v1/traces",
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "/base",
	} {
		var got atomic.Pointer[tracepb.TracesData]
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			data := &tracepb.TracesData{}
			if err = errors.Join(err, proto.Unmarshal(body, data)); err != nil || r.URL.Path != path ||
				r.Header.Get("Content-Type") != "application/x-protobuf" {
				t.Errorf("%v, at %s with %v", err, r.URL, r.Header)
			}
			got.Store(data)
		}))
		p, err := FromEnvironment(variables(map[string]string{
			variable: server.URL + "/base", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
		}), service(func(problem string) { t.Error(problem) }))
		testkit.Must(t, err)
		_, span := p.Begin(t.Context(), p.Parent, "x")
		span.End()
		p.Close()
		server.Close()
		data := got.Load()
		if data == nil || hex.EncodeToString(data.ResourceSpans[0].ScopeSpans[0].Spans[0].TraceId) !=
			span.SpanContext().TraceID().String() {
			t.Errorf("%s: got %v", variable, data)
		}
	}
}

func TestProtocolFollowsThePort(t *testing.T) {
	for endpoint, want := range map[string]string{
		"http://localhost:4317": "http://localhost:4317" + exportMethod,
		"http://localhost:4318": "http://localhost:4318/v1/traces",
		"https://localhost":     "https://localhost" + exportMethod,
		"localhost:4317":        "https://localhost:4317" + exportMethod,
	} {
		c, err := environment{variables(map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint})}.collector()
		testkit.Must(t, err)
		if c.url != want {
			t.Errorf("%s: got %s, want %s", endpoint, c.url, want)
		}
	}
}

// A collector that is not there, refuses, or never answers is reported once, without the
// password, and keeps nobody waiting: neither a span nor, beyond its second, the end.
func TestCollectorsThatDoNotTakeSpans(t *testing.T) {
	refusing := httptest.NewServer(http.NotFoundHandler())
	defer refusing.Close()
	for name, endpoint := range map[string]string{
		"silent":   "http://u:secret@" + testcollector.Silent(t),
		"away":     "http://u:secret@" + testkit.FreeAddress(t),
		"refusing": strings.Replace(refusing.URL, "://", "://u:secret@", 1),
	} {
		t.Run(name, func(t *testing.T) {
			var problems []string
			p, err := FromEnvironment(variables(map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}),
				service(func(problem string) { problems = append(problems, problem) }))
			testkit.Must(t, err)
			began := time.Now()
			for range 10_000 { // more than the queue holds
				_, span := p.Begin(t.Context(), trace.SpanContext{}, "x")
				span.End()
			}
			p.Close()
			if took := time.Since(began); took > sendTimeout/2 {
				t.Errorf("it took %s", took)
			}
			if len(problems) != 1 || strings.Contains(problems[0], "secret") ||
				!strings.HasPrefix(problems[0], "spans are dropped, as the collector at http://127.0.0.1:") {
				t.Errorf("got the warnings %q", problems)
			}
		})
	}
}

// What others say of the trace does not make a process send more than its share.
func TestSampling(t *testing.T) {
	sampled, unsampled := Parent(traceparent), Parent(traceparent[:54]+"0")
	for _, test := range []struct {
		share  share
		parent trace.SpanContext
		want   bool
	}{
		{0, sampled, false},
		{0, unsampled, false},
		{0, trace.SpanContext{}, false},
		{1, sampled, true},
		{1, unsampled, false},
		{1, trace.SpanContext{}, true},
	} {
		c := &collector{http: http.DefaultClient, url: "http://" + testkit.FreeAddress(t)}
		p, err := newProvider(c, service(func(string) {}), sampling(test.share))
		testkit.Must(t, err)
		ctx, span := p.Begin(t.Context(), test.parent, "x")
		_, within := Start(ctx, "y")
		if span.IsRecording() != test.want || within.IsRecording() != test.want || IsSampled(ctx) != test.want {
			t.Errorf("share %v, parent %s: got %v and %v", test.share, test.parent.TraceFlags(), span.IsRecording(),
				within.IsRecording())
		}
		p.Close()
	}
	// The same trace, over and over, is not sampled over and over.
	const tries, part = 10_000, share(0.1)
	c := &collector{http: http.DefaultClient, url: "http://" + testkit.FreeAddress(t)}
	p, err := newProvider(c, service(func(string) {}), sampling(part))
	testkit.Must(t, err)
	defer p.Close()
	count := 0
	for range tries {
		if _, span := p.Begin(t.Context(), sampled, "x"); span.IsRecording() {
			count++
		}
	}
	if count < tries/20 || count > tries/5 {
		t.Errorf("got %d of %d spans, want about a tenth", count, tries)
	}
}

func TestTransport(t *testing.T) {
	got := ""
	rt := Transport(roundTripper(func(r *http.Request) { got = r.Header.Get("Traceparent") }))
	for ctx, want := range map[context.Context]string{
		t.Context(): "",
		trace.ContextWithRemoteSpanContext(t.Context(), Parent(traceparent)): traceparent,
	} {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://x", nil)
		testkit.Must(t, err)
		res, err := rt.RoundTrip(req)
		testkit.Must(t, err)
		testkit.Must(t, res.Body.Close())
		if got != want || len(req.Header) != 0 {
			t.Errorf("got %q and left %v, want %q", got, req.Header, want)
		}
	}
}

type roundTripper func(*http.Request)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	f(r)
	return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody}, nil
}
