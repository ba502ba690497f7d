package kube

import (
	"context"
	"net/http"
	"time"

	"k8s.io/utils/clock"
)

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
