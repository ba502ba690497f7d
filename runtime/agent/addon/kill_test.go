package addon_test

import (
	"errors"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
)

var errMissing = errors.New("the Secret is missing")

// Killed at any write, the next agent comes to the same end, and one that was killed
// before it could remove a credential leaves none behind.
func TestAgentCanBeKilledAtAnyWrite(t *testing.T) {
	for _, answered := range []bool{false, true} {
		t.Run(fmt.Sprintf("the write carried out: %t", answered), func(t *testing.T) {
			at := 0
			for died := true; died && !t.Failed(); {
				at++
				t.Run(fmt.Sprintf("write %d", at), func(t *testing.T) { died = killedAt(t, at, answered) })
			}
			if at < 5 {
				t.Errorf("there were only %d writes", at-1)
			}
		})
	}
}

// killedAt kills the agent at a write, and starts another one. died is false when there
// were not that many writes.
func killedAt(t *testing.T, at int, answered bool) (died bool) {
	f := newFixture(t)
	k := testkit.NewKiller(at, answered)
	f.wrap, f.wrapHub = k.Wrap, k.Wrap
	f.start()
	m := f.addOn("a", forHub("u", "g"))
	died = k.Await(t, func() bool {
		f.must(f.Get(f.ctx, client.ObjectKeyFromObject(m), m))
		return meta.IsStatusConditionTrue(m.Status.Conditions, "ClusterCertificateRotated")
	})
	f.stop()
	f.wrap, f.wrapHub = nil, nil
	f.start()
	f.stored("a-hub-kubeconfig", nil)
	f.condition(m, "ClusterCertificateRotated", "True", "ClientCertificateUpdated", "")
	if n := len(f.requests("a")); n > 2 {
		t.Errorf("%d certificate requests", n)
	}
	f.must(f.Delete(f.ctx, m))
	f.removed(f.install, "a-hub-kubeconfig")
	return died
}
