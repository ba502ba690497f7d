package tracing

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

const (
	// sendTimeout is how long a collector may take for some spans.
	sendTimeout = 10 * time.Second
	// maxAnswer is how much of a collector's answer is read, in bytes.
	maxAnswer = 64 << 10

	// exportMethod is what gRPC calls the collector's method, and exportPath where it is
	// with plain HTTP.
	exportMethod = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
	exportPath   = "/v1/traces"
)

// collector takes spans by OTLP, with gRPC or with plain HTTP. A gRPC call with one message
// in each direction is a request of HTTP/2 whose body begins with five bytes, and whose
// result is in the trailers.
type collector struct {
	http *http.Client
	url  string
	// name is what messages call it: the URL without a password and a path.
	name    string
	grpc    bool
	headers map[string]string
}

// newCollector makes a collector. Plain text is HTTP/2 from the start with gRPC.
func newCollector(at *url.URL, grpc bool, transport *http.Transport) *collector {
	transport.Protocols = &http.Protocols{}
	if grpc {
		transport.Protocols.SetHTTP2(true)
		transport.Protocols.SetUnencryptedHTTP2(true)
	} else {
		transport.Protocols.SetHTTP1(true)
		transport.Protocols.SetHTTP2(true)
	}
	return &collector{url: at.String(), name: at.Scheme + "://" + at.Host, grpc: grpc, http: &http.Client{
		Transport: transport,
		// The headers may have a token, which is for nobody else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Start implements otlptrace.Client.
func (c *collector) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
func (c *collector) Stop(context.Context) error {
	c.http.CloseIdleConnections()
	return nil
}

// UploadTraces implements otlptrace.Client. It tries once.
func (c *collector) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	// It reads on the wire as the collector's ExportTraceServiceRequest does.
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return fmt.Errorf("encode spans: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	kind := "application/x-protobuf"
	if c.grpc {
		kind = "application/grpc"
		frame := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body))) //nolint:gosec // some spans
		body = append(frame, body...)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", kind)
	req.Header.Set("User-Agent", scope)
	if c.grpc {
		req.Header.Set("Te", "trailers")
	}
	for name, value := range c.headers {
		req.Header.Set(name, value)
	}
	resp, err := c.http.Do(req)
	if of := (*url.Error)(nil); errors.As(err, &of) {
		return of.Err // without the URL, which messages name anyway
	}
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswer)); err != nil {
		return fmt.Errorf("read its answer: %w", err)
	}
	return c.refusal(resp)
}

// refusal is why a collector did not take spans.
func (c *collector) refusal(resp *http.Response) error {
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("it answers %s", resp.Status)
	}
	if !c.grpc {
		return nil
	}
	result := resp.Trailer
	if result.Get("Grpc-Status") == "" {
		result = resp.Header // of a call that failed at once
	}
	if code := result.Get("Grpc-Status"); code != "0" {
		return fmt.Errorf("it answers with the gRPC status %q %q", code, result.Get("Grpc-Message"))
	}
	return nil
}
