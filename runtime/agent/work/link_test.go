package work_test

import (
	"net/http"
	"strings"
	"sync"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
)

// link is the way from an agent to its managed cluster. It counts the requests
// and can break.
type link struct {
	mu       sync.Mutex
	requests []string // "METHOD path"
	// fail, when it returns an error for a request, is what becomes of it.
	fail func(r *http.Request) error
	// after sees each request that has been answered.
	after func(r *http.Request)
}

func (l *link) wrap(next http.RoundTripper) http.RoundTripper {
	return testkit.RoundTripper(func(r *http.Request) (*http.Response, error) {
		l.mu.Lock()
		l.requests = append(l.requests, r.Method+" "+r.URL.Path)
		fail := l.fail
		l.mu.Unlock()
		if fail != nil {
			if err := fail(r); err != nil {
				return nil, err
			}
		}
		response, err := next.RoundTrip(r)
		l.mu.Lock()
		after := l.after
		l.mu.Unlock()
		if after != nil && err == nil {
			after(r)
		}
		return response, err
	})
}

// failWith makes requests fail as f says.
func (l *link) failWith(f func(*http.Request) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fail = f
}

// count is how many requests there were that contain all parts.
func (l *link) count(parts ...string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
next:
	for _, r := range l.requests {
		for _, p := range parts {
			if !strings.Contains(r, p) {
				continue next
			}
		}
		n++
	}
	return n
}
