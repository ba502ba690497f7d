package access_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	useraccess "github.com/muster-fleet/terraform-provider-muster/runtime/access"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// killer kills an agent at one of its writes, to either side: nothing that it does
// from then on reaches a server, nor does it learn of any answer.
type killer struct {
	at       int  // which write, from 1 on
	answered bool // whether that write still reaches the server

	mu     sync.Mutex
	writes int
	what   string // the write at which the agent died
	dead   chan struct{}
}

func (k *killer) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
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
			return nil, errBroken
		}
		return response, err
	})
}

// judge tells what becomes of a request, and whether it is the last one.
func (k *killer) judge(r *http.Request) (last bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.what != "" {
		return false, errBroken
	}
	if r.Method == http.MethodGet || strings.HasSuffix(r.URL.Path, "/events") || strings.HasSuffix(r.URL.Path, "/selfsubjectaccessreviews") {
		return false, nil
	}
	k.writes++
	if k.writes != k.at {
		return false, nil
	}
	k.what = r.Method + " " + r.URL.Path
	if k.answered {
		return true, nil
	}
	close(k.dead)
	return false, errBroken
}

// killed runs an agent that dies at a write, or until done, then between, and then
// an agent that lives. died is false when there were not that many writes.
func (f *fixture) killed(at int, answered bool, done func() bool, between func()) (died bool, what string) {
	f.t.Helper()
	k := &killer{at: at, answered: answered, dead: make(chan struct{})}
	f.wrap, f.wrapHub = k.wrap, k.wrap
	f.start()
	for !died && !done() {
		select {
		case <-k.dead:
			died = true
		case <-time.After(5 * time.Millisecond):
		}
	}
	f.stop()
	between()
	f.wrap, f.wrapHub = nil, nil
	f.start()
	return died, k.what
}

// Killed at any write, the next agent gets to the same end, and leaves no
// certificate request behind.
func TestAgentCanBeKilledAtAnyStep(t *testing.T) {
	phases := map[string]func(f *fixture, at int, answered bool) (died bool, what string){
		"a certificate": func(f *fixture, at int, answered bool) (bool, string) {
			c := f.credential(nil)
			died, what := f.killed(at, answered, func() bool { return f.isIssued(c) == nil && f.hasNoRequest(c) == nil }, func() {})
			f.issued(c)
			if _, err := useraccess.ReadCertificate(c.Status.Certificate, hubID, c.Spec.User, c.Status.KeyHash); err != nil {
				f.t.Errorf("killed at %q: %v", what, err)
			}
			return died, what
		},
		"a token": func(f *fixture, at int, answered bool) (bool, string) {
			f.setSigner(f.fail)
			f.bring(keyHash(f.t, f.key.Public()))
			c := f.credential(mode(v1alpha1.AccessAuto))
			died, what := f.killed(at, answered, func() bool { return f.isIssued(c) == nil && f.hasNoRequest(c) == nil }, func() {})
			f.issued(c)
			if _, err := useraccess.Open(f.seal, c.Status.SealedToken, string(c.Spec.AccessRequest.UID)); err != nil {
				f.t.Errorf("killed at %q: %v", what, err)
			}
			return died, what
		},
		"a refusal by the signer": func(f *fixture, at int, answered bool) (bool, string) {
			f.setSigner(f.fail)
			c := f.credential(nil)
			failed := func() error { return f.isRefused(c, "SignerRefused", "") }
			died, what := f.killed(at, answered, func() bool { return failed() == nil && f.hasNoRequest(c) == nil }, func() {})
			f.refused(c, "SignerRefused", "")
			return died, what
		},
		"a credential that is deleted meanwhile": func(f *fixture, at int, answered bool) (bool, string) {
			c := f.credential(nil)
			died, what := f.killed(at, answered, func() bool { return f.isIssued(c) == nil && f.hasNoRequest(c) == nil },
				func() { f.must(f.Delete(f.ctx, c)) })
			f.eventually(func() error {
				r := &certificatesv1.CertificateSigningRequest{}
				if err := f.Get(f.ctx, types.NamespacedName{Name: c.Name}, r); !apierrors.IsNotFound(err) {
					return fmt.Errorf("killed at %q: a request is left: %v", what, err)
				}
				return nil
			})
			return died, what
		},
	}
	for phase, run := range phases {
		for _, answered := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, the write carried out: %t", phase, answered), func(t *testing.T) {
				at := 1
				for ; ; at++ {
					if died, _ := run(newFixture(t), at, answered); !died || t.Failed() {
						break
					}
				}
				if at < 4 {
					t.Errorf("there were only %d writes", at-1)
				}
				t.Logf("killed at each of %d writes", at-1)
			})
		}
	}
}
