package managedcluster

import (
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/types"
	resourceapi "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

func TestObservedClusterHasNoNullCollections(t *testing.T) {
	object := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "c1", CreationTimestamp: metav1.NewTime(time.Now())}}
	got := observedTable().Read(object)
	for _, name := range []string{"labels", "claims", "taints", "conditions"} {
		if !got.IsSet(name) {
			t.Errorf("%s is null", name)
		}
	}
	if got.Text("available") != "Unknown" {
		t.Errorf("available is %s", got["available"])
	}
}

// Whatever a hub says about a cluster fits the schema.
func TestObservedClusterFitsItsSchema(t *testing.T) {
	now := metav1.Now()
	object := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "c1", Labels: map[string]string{"a": "b"}}}
	object.Spec.Taints = []clusterv1.Taint{
		{Key: cluster.UnreachableTaint, Effect: clusterv1.TaintEffectNoSelect, TimeAdded: &now},
		{Key: "a", Value: "1", Effect: clusterv1.TaintEffectPreferNoSelect},
	}
	object.Status.Conditions = []metav1.Condition{{Type: "X", Status: metav1.ConditionUnknown}}
	object.Status.ClusterClaims = []clusterv1.ManagedClusterClaim{{Name: "id.k8s.io", Value: "c1"}}
	object.Status.Capacity = clusterv1.ResourceList{clusterv1.ResourceCPU: resourceapi.MustParse("3500m")}
	value, diags := types.ObjectValue(observedTable().Types(), observedTable().Read(object))
	if diags.HasError() || len(value.Attributes()) != len(observedTable()) {
		t.Errorf("got %s, %v", value, diags)
	}
}
