package managedcluster

import (
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	resourceapi "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

func TestObservedClusterHasNoNullCollections(t *testing.T) {
	got := observedCluster(&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "c1", CreationTimestamp: metav1.NewTime(time.Now())}})
	if got.Labels.IsNull() || got.Claims.IsNull() || got.Taints == nil || got.Conditions == nil || got.Available.ValueString() != "Unknown" {
		t.Errorf("got %+v", got)
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
	for name, source := range map[string]datasource.DataSource{
		"one": Cluster().NewDataSource(), "many": NewListDataSource(),
	} {
		t.Run(name, func(t *testing.T) {
			var schemas datasource.SchemaResponse
			source.Schema(t.Context(), datasource.SchemaRequest{}, &schemas)
			state := tfsdk.State{Schema: schemas.Schema, Raw: tftypes.NewValue(schemas.Schema.Type().TerraformType(t.Context()), nil)}
			var value any = observedCluster(object)
			if name == "many" {
				value = &managedClustersModel{Names: []types.String{}, Clusters: []observedClusterModel{observedCluster(object)}}
			}
			if diags := state.Set(t.Context(), value); diags.HasError() {
				t.Error(diags)
			}
		})
	}
}
