package kube

import (
	"net/http"
	"sync"
)

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
