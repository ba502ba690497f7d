package hostile

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testfleet"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

// A tenant with all rights on placements, decisions and replica sets in a
// namespace of its own, to which no cluster set is bound, gets nothing into any
// cluster.
func TestDecisionsOfATenant(t *testing.T) {
	ctx := context.Background()
	const namespace, victim = "decisions-team", "decisions-victim"
	all := func(group string, resources ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: []string{"*"}}
	}
	tenant := testfleet.Client(t, hub.Tenant(t, namespace, "tenant",
		all(cluster.GroupName, "placements", "placementdecisions", "placementdecisions/status", "managedclustersetbindings"),
		all(work.GroupName, "manifestworkreplicasets")))
	admin := hub.admin(t)
	testkit.Must(t, admin.Create(ctx, &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: victim}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: ptr.To(true)}}))
	pending := "decisions-pending"
	testkit.Must(t, admin.Create(ctx, &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: pending}}))
	testkit.Eventually(t, func() error {
		return admin.Get(ctx, client.ObjectKey{Name: victim}, &corev1.Namespace{})
	})

	refusedFor(t, "a tenant binds a set", tenant.Create(ctx, &clusterv1beta2.ManagedClusterSetBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}, Spec: clusterv1beta2.ManagedClusterSetBindingSpec{ClusterSet: "default"},
	}), "bind")
	executor := &workv1.ManifestWorkExecutor{Subject: workv1.ManifestWorkExecutorSubject{
		Type: workv1.ExecutorSubjectTypeServiceAccount, ServiceAccount: &workv1.ManifestWorkSubjectServiceAccount{Namespace: "kube-system", Name: "root"},
	}}
	set := &workv1alpha1.ManifestWorkReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}}
	set.Spec.PlacementRefs = []workv1alpha1.LocalPlacementReference{{Name: "p"}}
	set.Spec.ManifestWorkTemplate = newWork(t, "", "", map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "default", "name": "pwned"}}).Spec
	asRoot := set.DeepCopy()
	asRoot.Spec.ManifestWorkTemplate.Executor = executor
	refusedFor(t, "a tenant has a replica set act as a service account", tenant.Create(ctx, asRoot), "kube-system/root")
	testkit.Must(t, tenant.Create(ctx, set))
	refusedFor(t, "a tenant has a replica set act as a service account later", tenant.Patch(ctx, set.DeepCopy(), client.RawPatch(types.MergePatchType,
		[]byte(`{"spec":{"manifestWorkTemplate":{"executor":{"subject":{"type":"ServiceAccount","serviceAccount":{"namespace":"kube-system","name":"root"}}}}}}`))), "kube-system/root")

	testkit.Must(t, tenant.Create(ctx, &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p"}}))
	decision := &clusterv1beta1.PlacementDecision{}
	testkit.Eventually(t, func() error {
		return tenant.Get(ctx, types.NamespacedName{Namespace: namespace, Name: "p-decision-1"}, decision)
	})
	forge := func(name string) client.Patch {
		return client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"status":{"decisions":[{"clusterName":%q,"reason":""}]}}`, name))
	}
	const why = "written by the hub's scheduler"
	refusedFor(t, "a tenant forges a decision", tenant.Status().Patch(ctx, decision.DeepCopy(), forge(victim)), why)
	forged := &clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "forged", Labels: map[string]string{
		cluster.PlacementLabel: "p", cluster.DecisionGroupIndexLabel: "0",
	}}}
	refusedFor(t, "a tenant adds a decision", tenant.Create(ctx, forged), why)
	loose := &clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "loose"}}
	testkit.Must(t, tenant.Create(ctx, loose))
	testkit.Must(t, tenant.Status().Patch(ctx, loose, forge(victim)))
	refusedFor(t, "a tenant puts a decision of its own under a placement", tenant.Patch(ctx, loose, client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"cluster.open-cluster-management.io/placement":"p","cluster.open-cluster-management.io/decision-group-index":"0"}}}`))), why)

	// As its own scheduler it may write them; that no set is bound here remains.
	testkit.Must(t, tenant.Patch(ctx, &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p"}},
		client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"cluster.open-cluster-management.io/experimental-scheduling-disable":"true"}}}`))))
	for _, name := range []string{victim, pending, "kube-system", namespace, "decisions-nowhere"} {
		testkit.Eventually(t, func() error { return tenant.Status().Patch(ctx, decision.DeepCopy(), forge(name)) })
		testkit.Eventually(t, func() error { // the replica set has looked at it, and says so
			if err := tenant.Get(ctx, client.ObjectKeyFromObject(set), set); err != nil {
				return err
			}
			c := meta.FindStatusCondition(set.Status.Conditions, work.ConditionPlacementVerified)
			if want := fmt.Sprintf("placement p: its decisions name clusters that get nothing: %s: not in a cluster set", name); c == nil || len(c.Message) < len(want) || c.Message[:len(want)] != want {
				return fmt.Errorf("the condition is %+v, want %q", c, want)
			}
			return nil
		})
		works := &workv1.ManifestWorkList{}
		testkit.Must(t, admin.List(ctx, works, client.MatchingLabels{work.ReplicaSetLabel: namespace + ".web"}))
		var err error
		if len(works.Items) > 0 {
			err = fmt.Errorf("there are works in %s", works.Items[0].Namespace)
		}
		harmless(t, "a tenant decides for "+name, err)
	}
}
