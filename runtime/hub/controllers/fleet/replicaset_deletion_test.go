package fleet_test

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

// remains tells whether the set is still there.
func (w *replicaSetWorld) remains() bool {
	w.Helper()
	err := w.Get(context.Background(), w.key(), &v1alpha1.ManifestWorkReplicaSet{})
	if err != nil && !apierrors.IsNotFound(err) {
		w.Fatal(err)
	}
	return err == nil
}

// deleteInForeground makes the set's deletion wait for that of its works.
func (w *replicaSetWorld) deleteInForeground() {
	w.Helper()
	w.change(func(s *v1alpha1.ManifestWorkReplicaSet) {
		s.Spec.CascadeDeletionPolicy = v1alpha1.CascadeDeletionPolicyForeground
	})
}

func (w *replicaSetWorld) deleteSet() {
	w.Helper()
	w.Must(w.Delete(context.Background(), w.set()))
}

func TestDeletionInTheBackgroundDoesNotWait(t *testing.T) {
	w := newSet(t, "a b", "0:a,b")
	w.reconcile()
	w.hold("a")
	w.deleteSet()
	w.reconcile()
	w.mustDeliver("a/p=1(going)")
	if w.remains() {
		t.Error("the set is still there")
	}
}

func TestDeletionInTheForegroundWaits(t *testing.T) {
	w := newSet(t, "a b", "0:a,b")
	w.deleteInForeground()
	w.reconcile()
	w.hold("a")
	w.deleteSet()
	w.reconcile()
	w.reconcile()
	w.mustDeliver("a/p=1(going)")
	if !w.remains() {
		t.Fatal("the set is gone before its works")
	}
	if n := w.writes.During(func() { w.reconcile() }); n != 0 {
		t.Errorf("%d writes while it waits", n)
	}
	left := w.works()[0]
	w.Release(&left)
	w.reconcile()
	if w.remains() {
		t.Error("the set is still there")
	}
}

func TestADeletedSetHandsNothingOut(t *testing.T) {
	w := newSet(t, "a b", "0:a")
	w.deleteInForeground()
	w.reconcile()
	w.hold("a")
	w.deleteSet()
	w.place("p", "0:a,b")
	w.reconcile()
	w.mustDeliver("a/p=1(going)")
}

func TestASetThatIsGoneIsNoError(t *testing.T) {
	w := newReplicaSetWorld(t)
	w.reconcile()
}
