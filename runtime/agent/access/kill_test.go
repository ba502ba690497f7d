package access_test

import (
	"fmt"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	useraccess "github.com/muster-fleet/terraform-provider-muster/runtime/access"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// killed runs an agent that dies at a write, or until done, then between, and then
// an agent that lives. died is false when there were not that many writes.
func (f *fixture) killed(at int, answered bool, done func() bool, between func()) (died bool, what string) {
	f.t.Helper()
	k := testkit.NewKiller(at, answered)
	f.wrap, f.wrapHub = k.Wrap, k.Wrap
	f.start()
	died = k.Await(f.t, done)
	f.stop()
	between()
	f.wrap, f.wrapHub = nil, nil
	f.start()
	return died, k.What()
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
				at := 0
				for died := true; died && !t.Failed(); {
					at++
					t.Run(fmt.Sprintf("write %d", at), func(t *testing.T) {
						died, _ = run(newFixture(t), at, answered)
					})
				}
				if at < 4 {
					t.Errorf("there were only %d writes", at-1)
				}
				t.Logf("killed at each of %d writes", at-1)
			})
		}
	}
}
