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
			at := 1
			for ; !t.Failed(); at++ {
				f := newFixture(t)
				k := testkit.NewKiller(at, answered)
				f.wrap, f.wrapHub = k.Wrap, k.Wrap
				f.start()
				m := f.addOn("a", forHub("u", "g"))
				done := func() bool {
					f.must(f.Get(f.ctx, client.ObjectKeyFromObject(m), m))
					return meta.IsStatusConditionTrue(m.Status.Conditions, "ClusterCertificateRotated")
				}
				died := k.Await(t, done)
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
				if !died {
					break
				}
			}
			if at < 5 {
				t.Errorf("there were only %d writes", at-1)
			}
		})
	}
}
