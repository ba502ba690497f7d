package placement

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

// decidedGroups are canary in two pieces, and the rest.
func decidedGroups() []decidedGroup {
	return []decidedGroup{{0, "canary", []string{"c"}}, {1, "canary", []string{"a"}}, {2, "", []string{"b", "d"}}}
}

func TestDecisionsOfAGroup(t *testing.T) {
	for name, test := range map[string]struct {
		group    types.String
		index    types.Int64
		clusters string
		groups   int
	}{
		"all":                      {types.StringNull(), types.Int64Null(), "a b c d", 3},
		"a name":                   {types.StringValue("canary"), types.Int64Null(), "a c", 2},
		"no name":                  {types.StringValue(""), types.Int64Null(), "b d", 1},
		"an index":                 {types.StringNull(), types.Int64Value(0), "c", 1},
		"a name and an index":      {types.StringValue("canary"), types.Int64Value(1), "a", 1},
		"a name of another index":  {types.StringValue("canary"), types.Int64Value(2), "", 0},
		"a name that is not there": {types.StringValue("gold"), types.Int64Null(), "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			clusters, groups := narrow(values{"group_name": test.group, "group_index": test.index}, decidedGroups())
			if got := strings.Join(clusters, " "); got != test.clusters || len(groups) != test.groups {
				t.Errorf("got %q in %d groups, want %q in %d", got, len(groups), test.clusters, test.groups)
			}
		})
	}
}

// Groups keep the order of the decisions, which may be one by score; so many
// decisions are in no order by themselves.
func TestClustersOfAGroupKeepTheirOrder(t *testing.T) {
	var decisions []clusterv1beta1.PlacementDecision
	for _, d := range []struct {
		name, index string
		clusters    []string
	}{{"p-decision-10", "1", []string{"b"}}, {"p-decision-2", "1", []string{"z", "c"}}, {"p-decision-1", "0", []string{"y", "a"}}} {
		object := clusterv1beta1.PlacementDecision{}
		object.Name, object.Labels = d.name, map[string]string{cluster.DecisionGroupIndexLabel: d.index}
		for _, name := range d.clusters {
			object.Status.Decisions = append(object.Status.Decisions, clusterv1beta1.ClusterDecision{ClusterName: name})
		}
		decisions = append(decisions, object)
	}
	all, groups := decided(decisions)
	if got := fmt.Sprint(all, groups[0].Clusters, groups[1].Clusters); got != "[a b c y z] [y a] [z c b]" {
		t.Errorf("got %s", got)
	}
}

func TestDecidedOrdersGroups(t *testing.T) {
	decision := func(name, index, group string, clusters ...string) clusterv1beta1.PlacementDecision {
		d := clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			cluster.DecisionGroupIndexLabel: index, cluster.DecisionGroupNameLabel: group,
		}}}
		for _, c := range clusters {
			d.Status.Decisions = append(d.Status.Decisions, clusterv1beta1.ClusterDecision{ClusterName: c})
		}
		return d
	}
	all, groups := decided([]clusterv1beta1.PlacementDecision{
		decision("p-decision-10", "10", "", "z"), decision("p-decision-2", "2", "", "b", "a"), decision("p-decision-1", "0", "canary", "m"), decision("p-decision-3", "2", "", "c"),
	})
	if fmt.Sprint(all) != "[a b c m z]" {
		t.Errorf("clusters are %v", all)
	}
	got := ""
	for _, g := range groups {
		got += fmt.Sprintf("%d %s %v;", g.Index, g.Name, g.Clusters)
	}
	if got != "0 canary [m];2  [b a c];10  [z];" {
		t.Errorf("groups are %s", got)
	}
	all, groups = decided([]clusterv1beta1.PlacementDecision{decision("p-decision-1", "0", "")})
	if all == nil || len(all)+len(groups) != 0 {
		t.Errorf("an empty decision gives %v, %v", all, groups)
	}
}

func TestEnoughIsDecidedByThePresentGeneration(t *testing.T) {
	placement := func(status metav1.ConditionStatus, observed int64, selected int32) *clusterv1beta1.Placement {
		p := &clusterv1beta1.Placement{}
		p.Generation = 2
		p.Status.NumberOfSelectedClusters = selected
		p.Status.Conditions = []metav1.Condition{{Type: cluster.ConditionPlacementSatisfied, Status: status, ObservedGeneration: observed}}
		return p
	}
	for name, test := range map[string]struct {
		placement *clusterv1beta1.Placement
		wait      bool
		minimum   int64
		want      bool
	}{
		"not looked at yet":          {&clusterv1beta1.Placement{}, false, 0, false},
		"an older generation":        {placement(metav1.ConditionTrue, 1, 3), false, 0, false},
		"the present generation":     {placement(metav1.ConditionFalse, 2, 0), false, 0, true},
		"generation not recorded":    {placement(metav1.ConditionTrue, 0, 3), false, 0, true},
		"waited for without success": {placement(metav1.ConditionFalse, 2, 1), true, 0, false},
		"satisfied":                  {placement(metav1.ConditionTrue, 2, 1), true, 0, true},
		"too few":                    {placement(metav1.ConditionTrue, 2, 1), false, 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			asked := values{"wait": types.BoolValue(test.wait), "min_clusters": types.Int64Value(test.minimum)}
			if got := enough(asked, test.placement); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}
