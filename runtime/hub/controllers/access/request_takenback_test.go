package access_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// The owner of a cluster changes the policy after a certificate was issued: the
// hub withdraws the rights that are bound to the key.
func TestAccessThatTheClusterTakesBackIsWithdrawn(t *testing.T) {
	w := newRequestWorld(t, "a")
	a := w.issued("a")
	a.answer(func(s *v1alpha1.ClusterCredentialStatus) {
		s.Certificate = nil
		meta.SetStatusCondition(&s.Conditions, metav1.Condition{Type: muster.ConditionIssued, Status: metav1.ConditionFalse, Reason: muster.ReasonRefusedByPolicy})
		meta.SetStatusCondition(&s.Conditions, metav1.Condition{
			Type: muster.ConditionFailed, Status: metav1.ConditionTrue, Reason: muster.ReasonRefusedByPolicy, Message: "the owner has switched user access off",
		})
	})
	if why := a.becomes("Approved=False/RefusedByPolicy"); !strings.Contains(why, "the owner has switched user access off") {
		t.Errorf("the message is %q", why)
	}
	a.becomes("Revoked=False/Withdrawing")
	if s := a.now().Status; len(s.Certificate) > 0 || s.NotAfter == nil {
		t.Errorf("the status is %+v", s.IssuedAccess)
	}
	w.bind("a", true)
	a.becomes("Revoked=True/RefusedByPolicy")
}
