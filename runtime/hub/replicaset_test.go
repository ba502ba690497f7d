package hub_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub"
)

func newReplicaSet(manifests ...workv1.Manifest) *workv1alpha1.ManifestWorkReplicaSet {
	s := &workv1alpha1.ManifestWorkReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "web"}}
	s.Spec.PlacementRefs = []workv1alpha1.LocalPlacementReference{{Name: "everywhere"}}
	s.Spec.ManifestWorkTemplate.Workload.Manifests = manifests
	return s
}

func TestReplicaSetsNeedTheirGate(t *testing.T) {
	c := otherHub(t, hub.Options{}, "ManifestWorkReplicaSet=false")
	err := c.Create(context.Background(), newReplicaSet(configMapManifest("a")))
	if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "ManifestWorkReplicaSet feature is disabled") {
		t.Errorf("got %v", err)
	}
}

// From a set to the works of the clusters that a placement selects, and back.
func TestReplicaSet(t *testing.T) {
	ctx := context.Background()
	c := otherHub(t, hub.Options{}, "ManifestWorkReplicaSet=true,ManagedClusterAutoApproval=true")
	if err := c.Create(ctx, newReplicaSet()); !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "manifests should not be empty") {
		t.Errorf("a set without manifests: got %v", err)
	}
	testkit.Must(t, c.Create(ctx, newReplicaSet(configMapManifest("a"))))
	reads := func(check func(*workv1alpha1.ManifestWorkReplicaSet) error) {
		t.Helper()
		testkit.Eventually(t, func() error {
			s := newReplicaSet()
			if err := c.Get(ctx, client.ObjectKeyFromObject(s), s); err != nil {
				return err
			}
			return check(s)
		})
	}
	reads(func(s *workv1alpha1.ManifestWorkReplicaSet) error {
		return hasReason(s.Status.Conditions, work.ConditionPlacementVerified, metav1.ConditionFalse, work.ReasonPlacementDecisionNotFound)
	})

	testkit.Must(t, c.Create(ctx, &clusterv1beta2.ManagedClusterSetBinding{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "default"}, Spec: clusterv1beta2.ManagedClusterSetBindingSpec{ClusterSet: "default"}}))
	testkit.Must(t, c.Create(ctx, &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "everywhere"}}))
	clusters := []string{"oslo", "paris"}
	for _, name := range clusters {
		testkit.Must(t, c.Create(ctx, newCluster(name)))
		testkit.Eventually(t, func() error {
			mc := newCluster(name)
			if err := c.Get(ctx, types.NamespacedName{Name: name}, mc); err != nil {
				return err
			}
			before := mc.DeepCopy()
			meta.SetStatusCondition(&mc.Status.Conditions, metav1.Condition{Type: cluster.ConditionAvailable, Status: metav1.ConditionTrue, Reason: "Test"})
			return c.Status().Patch(ctx, mc, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		})
	}
	for _, name := range clusters {
		testkit.Eventually(t, func() error { // as the cluster's agent does
			list := &workv1.ManifestWorkList{}
			if err := c.List(ctx, list, client.InNamespace(name), client.MatchingLabels{work.ReplicaSetLabel: "default.web"}); err != nil {
				return err
			}
			if len(list.Items) != 1 {
				return fmt.Errorf("%s has %d works, want 1", name, len(list.Items))
			}
			mw := &list.Items[0]
			for _, kind := range []string{work.ConditionApplied, work.ConditionAvailable} {
				meta.SetStatusCondition(&mw.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "Test", ObservedGeneration: mw.Generation})
			}
			return c.Status().Update(ctx, mw)
		})
	}
	reads(func(s *workv1alpha1.ManifestWorkReplicaSet) error {
		if s.Status.Summary.Total != 2 {
			return fmt.Errorf("the summary is %+v, want two works", s.Status.Summary)
		}
		return hasReason(s.Status.Conditions, work.ConditionPlacementRolledOut, metav1.ConditionTrue, work.ReasonRolloutComplete)
	})

	// A cluster that is deleted goes with its work, and the other stays.
	testkit.Must(t, c.Delete(ctx, newCluster("oslo")))
	testkit.Eventually(t, func() error {
		if err := c.Get(ctx, types.NamespacedName{Name: "oslo"}, &clusterv1.ManagedCluster{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the cluster is still there (%v)", err)
		}
		return nil
	})
	reads(func(s *workv1alpha1.ManifestWorkReplicaSet) error {
		if s.Status.Summary.Total != 1 || s.Status.Summary.Available != 1 {
			return fmt.Errorf("the summary is %+v, want one work", s.Status.Summary)
		}
		return nil
	})

	testkit.Must(t, c.Delete(ctx, newReplicaSet()))
	testkit.Eventually(t, func() error {
		list := &workv1.ManifestWorkList{}
		if err := c.List(ctx, list); err != nil || len(list.Items) > 0 {
			return fmt.Errorf("%d works are left (%v)", len(list.Items), err)
		}
		return nil
	})
}

func hasReason(conditions []metav1.Condition, kind string, status metav1.ConditionStatus, reason string) error {
	if c := meta.FindStatusCondition(conditions, kind); c == nil || c.Status != status || c.Reason != reason {
		return fmt.Errorf("the condition %s is %+v, want %s/%s", kind, c, status, reason)
	}
	return nil
}
