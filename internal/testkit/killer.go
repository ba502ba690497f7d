package testkit

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// ErrBroken is what a program gets whose connection is broken.
var ErrBroken = errors.New("the connection is broken")

// Killer kills a program at one of its writes, by its connections: nothing that it does
// from then on reaches a server, nor does it learn of any answer. Events and questions
// about its rights are no writes. It is safe for concurrent use. Make it with NewKiller.
type Killer struct {
	at       int
	answered bool

	mu     sync.Mutex
	writes int
	what   string
	dead   chan struct{}
}

// NewKiller kills at a write, from 1 on. answered says whether that one still reaches the
// server.
func NewKiller(at int, answered bool) *Killer {
	return &Killer{at: at, answered: answered, dead: make(chan struct{})}
}

// Wrap kills what goes through next; it fits rest.Config.Wrap.
func (k *Killer) Wrap(next http.RoundTripper) http.RoundTripper {
	return RoundTripper(func(r *http.Request) (*http.Response, error) {
		last, err := k.judge(r)
		if err != nil {
			return nil, err
		}
		response, err := next.RoundTrip(r)
		if last {
			if err == nil {
				_ = response.Body.Close()
			}
			close(k.dead)
			return nil, ErrBroken
		}
		return response, err
	})
}

// judge decides what becomes of a request, and whether it is the last one.
func (k *Killer) judge(r *http.Request) (last bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch path := r.URL.Path; {
	case k.what != "":
		return false, ErrBroken
	case r.Method == http.MethodGet, strings.HasSuffix(path, "/events"),
		strings.HasSuffix(path, "/selfsubjectaccessreviews"):
		return false, nil
	}
	if k.writes++; k.writes != k.at {
		return false, nil
	}
	k.what = r.Method + " " + r.URL.Path
	if k.answered {
		return true, nil
	}
	close(k.dead)
	return false, ErrBroken
}

// Await waits until the program is dead or done, and reports which.
func (k *Killer) Await(t testing.TB, done func() bool) (died bool) {
	t.Helper()
	Eventually(t, func() error {
		select {
		case <-k.dead:
			died = true
		default:
			if !done() {
				return errors.New("the program is neither dead nor done")
			}
		}
		return nil
	})
	return died
}

// What is the write at which the program died.
func (k *Killer) What() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.what
}
