package access_test

import (
	"context"
	"strings"
	"testing"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// hasAccounts checks where a cloud's work in a cluster has service accounts.
func (w *cloudWorld) hasAccounts(cluster, want string) {
	w.Helper()
	mw := w.work("prod", cluster)
	if got := mw.Annotations[muster.AccountNamespaceAnnotation]; got != want {
		w.Errorf("the work names the namespace %q for accounts, want %q", got, want)
	}
	for _, m := range mw.Spec.Workload.Manifests {
		text := string(m.Raw)
		if strings.Contains(text, `"kind":"ServiceAccount"`) && (want == "" || !strings.Contains(text, `"namespace":"`+want+`"`)) {
			w.Errorf("the work has %s, and the accounts are to be in %q", text, want)
		}
	}
}

// ofAnEarlierVersion makes the work of a cluster one that names no namespace of
// accounts, as earlier versions of the hub have written it.
func (w *cloudWorld) ofAnEarlierVersion(cluster string) {
	w.Helper()
	mw := w.work("prod", cluster)
	delete(mw.Annotations, muster.AccountNamespaceAnnotation)
	w.Must(w.Update(context.Background(), mw))
}

// tokenRequest makes a live request for a token.
func tokenRequest(w *cloudWorld, cluster string) {
	w.Helper()
	w.requestIn(v1alpha1.AccessToken, "r", "prod", cluster, "jo", 1)
}

// The accounts of users are in a namespace of their own, which nobody else may have.
func TestANamespaceOfAccountsIsNotTakenOver(t *testing.T) {
	w := newCloud(t, "a", "a")
	w.accountsTaken = true
	w.pass("prod")
	w.answer("prod", false)
	w.pass("prod")
	w.pass("prod")
	w.must("prod", "a:probe")
	w.mustReport("prod", "1/0/1 a:AccountNamespaceExists"+failed)
	if message := w.get("prod").Status.Clusters.Failing[0].Message; !strings.Contains(message, w.accounts("prod")) {
		t.Errorf("the message is %q", message)
	}
	w.accountsTaken = false // somebody has deleted it
	w.answer("prod", false)
	w.pass("prod")
	w.must("prod", "a:work")
	w.hasAccounts("a", w.accounts("prod"))
}

// Accounts that an earlier version of the hub has put into the cloud's namespace move
// once a probe has found the other one free; until then access goes on.
func TestAccountsMoveOutOfTheCloudsNamespace(t *testing.T) {
	w := newCloud(t, "a", "a")
	w.settle("prod")
	tokenRequest(w, "a")
	w.ofAnEarlierVersion("a")
	w.pass("prod")
	w.must("prod", "a:probe a:work")
	w.hasAccounts("a", w.name+"-apps")
	w.apply("prod")
	w.pass("prod")
	w.mustReport("prod", "1/1/0"+applied)
	w.answer("prod", true, "cloud="+muster.CloudID(w.name, "prod"), "hub="+w.hubID())
	w.pass("prod")
	w.must("prod", "a:work")
	w.hasAccounts("a", w.accounts("prod"))
	w.apply("prod")
	w.pass("prod")
	if n := w.writes.During(func() { w.pass("prod") }); n != 0 {
		t.Errorf("%d writes after the move", n)
	}
}

// Where somebody else has the namespace, tokens end, and the cloud says so: users of
// the cloud must not reach each other's accounts. Certificates go on.
func TestAccountsThatCannotMoveEnd(t *testing.T) {
	w := newCloud(t, "a", "a")
	w.settle("prod")
	tokenRequest(w, "a")
	w.ofAnEarlierVersion("a")
	w.accountsTaken = true
	w.pass("prod")
	w.answer("prod", true)
	w.pass("prod")
	w.hasAccounts("a", "")
	w.apply("prod")
	w.pass("prod")
	w.must("prod", "a:probe a:work")
	if got := w.bound("prod", "a"); got != "1" {
		t.Errorf("bound are %q", got)
	}
	w.mustReport("prod", "1/1/1 a:AccountNamespaceExists"+failed)
	w.accountsTaken = false
	w.answer("prod", true)
	w.pass("prod")
	w.hasAccounts("a", w.accounts("prod"))
}

// A cloud that stops to allow tokens loses the namespace of the accounts, and probes
// again before it gets it back.
func TestCloudsWithoutTokensHaveNoAccounts(t *testing.T) {
	w := newCloud(t, "a", "a", func(s *v1alpha1.LogicalCloudSpec) { s.Access.Modes = []v1alpha1.AccessMode{v1alpha1.AccessCertificate} })
	w.settle("prod")
	w.hasAccounts("a", "")
	w.change("prod", func(s *v1alpha1.LogicalCloudSpec) { s.Access.Modes = nil })
	w.pass("prod")
	w.must("prod", "a:probe a:work")
	w.answer("prod", true)
	w.pass("prod")
	w.hasAccounts("a", w.accounts("prod"))
	w.change("prod", func(s *v1alpha1.LogicalCloudSpec) { s.Access.Modes = []v1alpha1.AccessMode{v1alpha1.AccessCertificate} })
	w.pass("prod")
	w.hasAccounts("a", "")
}
