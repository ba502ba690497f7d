package testkit

import (
	"net/http"
	"sync/atomic"
)

// Writes counts the requests of a client that are not GET. It is safe for
// concurrent use.
type Writes struct{ count atomic.Int64 }

// Wrap counts what goes through next; it fits rest.Config.Wrap.
func (w *Writes) Wrap(next http.RoundTripper) http.RoundTripper {
	return RoundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Method != http.MethodGet {
			w.count.Add(1)
		}
		return next.RoundTrip(r)
	})
}

// Count is how many writes there were.
func (w *Writes) Count() int64 { return w.count.Load() }

// During counts the writes while f runs.
func (w *Writes) During(f func()) int64 {
	before := w.Count()
	f()
	return w.Count() - before
}

// RoundTripper is a function as a transport.
type RoundTripper func(*http.Request) (*http.Response, error)

// RoundTrip sends a request.
func (f RoundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
