package placement

import (
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

func TestExplanationsAreOfEveryCluster(t *testing.T) {
	f := explainedFleet()
	f.Clusters[1].Spec.Taints = []clusterv1.Taint{{Key: "x", Effect: clusterv1.TaintEffectNoSelect}}
	p := f.Preview(explainedPlacement(clusterv1beta1.PlacementSpec{NumberOfClusters: ptr.To[int32](1)}), true)
	list, _ := previewTable().Read(&preview{Preview: p, explained: true})["explanations"].(types.List)
	var got []struct {
		Cluster  types.String `tfsdk:"cluster"`
		Selected types.Bool   `tfsdk:"selected"`
		Rank     types.Int64  `tfsdk:"rank"`
		Score    types.Int64  `tfsdk:"score"`
		Reason   types.String `tfsdk:"reason"`
		Scores   types.Map    `tfsdk:"scores"`
	}
	if diags := list.ElementsAs(t.Context(), &got, false); diags.HasError() {
		t.Fatal(diags)
	}
	if len(got) != 4 {
		t.Fatalf("%d clusters are explained, want 4", len(got))
	}
	first, passed, filtered := got[0], got[1], got[3]
	if first.Cluster.ValueString() != "a" || !first.Selected.ValueBool() || first.Rank.ValueInt64() != 1 || first.Score.ValueInt64() != 100 || first.Scores.Elements()["Balance"].String() != "100" {
		t.Errorf("the first is %+v", first)
	}
	if passed.Cluster.ValueString() != "c" || passed.Selected.ValueBool() || passed.Rank.ValueInt64() != 2 || !strings.Contains(passed.Reason.ValueString(), "rank 2 of 3, 1 asked for") {
		t.Errorf("the second is %+v", passed)
	}
	if filtered.Cluster.ValueString() != "b" || !filtered.Rank.IsNull() || !filtered.Score.IsNull() || !filtered.Scores.IsNull() || !strings.Contains(filtered.Reason.ValueString(), "x:NoSelect") {
		t.Errorf("the last is %+v", filtered)
	}
}

// explainedFleet has the clusters a to d; d is in another set; both sets are
// bound to the namespace n.
func explainedFleet() *hub.Fleet {
	f := &hub.Fleet{Snapshot: scheduling.Snapshot{Now: time.Unix(1_000_000, 0)}, Spreads: true}
	for i, name := range []string{"a", "b", "c", "d"} {
		c := clusterv1.ManagedCluster{}
		c.Name = name
		c.Labels = map[string]string{cluster.ClusterSetLabel: []string{"one", "one", "one", "two"}[i], "region": []string{"eu", "eu", "us", "us"}[i]}
		f.Clusters = append(f.Clusters, c)
	}
	for _, name := range []string{"one", "two"} {
		set, binding := clusterv1beta2.ManagedClusterSet{}, clusterv1beta2.ManagedClusterSetBinding{}
		set.Name, binding.Name, binding.Namespace = name, name, "n"
		f.Sets, f.Bindings = append(f.Sets, set), append(f.Bindings, binding)
	}
	return f
}

func explainedPlacement(spec clusterv1beta1.PlacementSpec) *clusterv1beta1.Placement {
	p := &clusterv1beta1.Placement{Spec: spec}
	p.Namespace, p.Name = "n", "p"
	return p
}
