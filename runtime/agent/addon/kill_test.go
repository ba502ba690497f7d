package addon_test

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var errMissing = errors.New("the Secret is missing")

// killer kills an agent at one of its writes, to either side: nothing that it does
// from then on reaches a server, nor does it learn of any answer.
type killer struct {
	at       int  // which write, from 1 on
	answered bool // whether that write still reaches the server

	mu     sync.Mutex
	writes int
	dead   bool
}

func (k *killer) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		k.mu.Lock()
		dead := k.dead
		last := false
		if !dead && r.Method != http.MethodGet {
			k.writes++
			last = k.writes == k.at
			k.dead = last
		}
		k.mu.Unlock()
		if dead || last && !k.answered {
			return nil, errors.New("the connection is broken")
		}
		response, err := next.RoundTrip(r)
		if last && err == nil {
			_ = response.Body.Close()
			return nil, errors.New("the connection is broken")
		}
		return response, err
	})
}

func (k *killer) died() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.dead
}

// Killed at any write, the next agent comes to the same end, and one that was killed
// before it could remove a credential leaves none behind.
func TestAgentCanBeKilledAtAnyWrite(t *testing.T) {
	for _, answered := range []bool{false, true} {
		t.Run(fmt.Sprintf("the write carried out: %t", answered), func(t *testing.T) {
			at := 1
			for ; !t.Failed(); at++ {
				f := newFixture(t)
				k := &killer{at: at, answered: answered}
				f.wrap, f.wrapHub = k.wrap, k.wrap
				f.start()
				m := f.addOn("a", forHub("u", "g"))
				done := func() bool {
					f.must(f.Get(f.ctx, client.ObjectKeyFromObject(m), m))
					return meta.IsStatusConditionTrue(m.Status.Conditions, "ClusterCertificateRotated")
				}
				for !k.died() && !done() {
					time.Sleep(5 * time.Millisecond)
				}
				f.stop()
				f.wrap, f.wrapHub = nil, nil
				f.start()
				f.stored("a-hub-kubeconfig", nil)
				f.condition(m, "ClusterCertificateRotated", "True", "ClientCertificateUpdated", "")
				if n := len(f.requests("a")); n > 2 {
					t.Errorf("killed at write %d: %d certificate requests", at, n)
				}
				f.must(f.Delete(f.ctx, m))
				f.removed(f.install, "a-hub-kubeconfig")
				if !k.died() {
					break
				}
			}
			if at < 5 {
				t.Errorf("there were only %d writes", at-1)
			}
		})
	}
}
