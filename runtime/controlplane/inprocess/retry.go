package inprocess

import (
	"net/http"
	"time"
)

const (
	// retryInterval is how soon a request is made again that came too early.
	retryInterval = 10 * time.Millisecond
	// maxRetries is how often, which is for a second altogether.
	maxRetries = 100
)

// Eager is a Transport that does not take the server at its word when that asks
// to come back in a second, as it does while it prepares to serve a kind for the
// first time. For a kind without objects that takes milliseconds, and at a start
// a dozen controllers wait for it.
type Eager struct{ Transport }

// RoundTrip makes a read again while the server is not prepared for it.
func (t Eager) RoundTrip(req *http.Request) (*http.Response, error) {
	for i := 0; ; i++ {
		resp, err := t.Transport.RoundTrip(req)
		if err != nil || resp.StatusCode != http.StatusTooManyRequests || req.Method != http.MethodGet || i == maxRetries {
			return resp, err
		}
		_ = resp.Body.Close()
		select {
		case <-time.After(retryInterval):
		case <-req.Context().Done():
			return nil, req.Context().Err()
		}
	}
}
