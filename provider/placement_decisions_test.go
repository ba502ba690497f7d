package provider

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

// decidedGroups are canary in two pieces, and the rest.
func decidedGroups() []decidedGroupModel {
	var groups []decidedGroupModel
	for i, g := range []struct {
		name     string
		clusters []string
	}{{"canary", []string{"c"}}, {"canary", []string{"a"}}, {"", []string{"b", "d"}}} {
		groups = append(groups, decidedGroupModel{Index: types.Int64Value(int64(i)), Name: types.StringValue(g.name), Clusters: textValues(g.clusters)})
	}
	return groups
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
			m := &placementDecisionsModel{GroupName: test.group, GroupIndex: test.index}
			clusters, groups := m.narrow(decidedGroups())
			if got := strings.Join(texts(clusters), " "); got != test.clusters || len(groups) != test.groups || clusters == nil || groups == nil {
				t.Errorf("got %q in %d groups, want %q in %d", got, len(groups), test.clusters, test.groups)
			}
		})
	}
}

func TestAccPlacementDecisionsOfAGroup(t *testing.T) {
	const n, address = "decided-groups", "data.muster_placement_decisions.test"
	config := func(body string) string {
		return choosing(n, `
  tolerations       = [{ operator = "Exists" }]
  decision_strategy = { decision_groups = [{ name = "canary", label_selector = { match_labels = { canary = "true" } } }], clusters_per_decision_group = "1" }
  depends_on        = [muster_managed_cluster.many, muster_managed_cluster_set_binding.test]
`) + fmt.Sprintf("data \"muster_placement_decisions\" \"test\" {\n  namespace = muster_placement.test.namespace\n  placement = muster_placement.test.name\n  min_clusters = 3\n%s\n}\n", body)
	}
	step := func(body string, want ...string) resource.TestStep {
		return resource.TestStep{
			PreConfig:         func() { someone(t).namespace(n) },
			Config:            config(body),
			ConfigStateChecks: []statecheck.StateCheck{statecheck.ExpectKnownValue(address, tfjsonpath.New("clusters"), listOf(want...))},
		}
	}
	byIndex := step("group_index = 1", n+"-0")
	byIndex.ConfigStateChecks = append(byIndex.ConfigStateChecks, statecheck.ExpectKnownValue(address, tfjsonpath.New("groups"), knownvalue.ListSizeExact(1)))
	accTest(t,
		step("group_name = \"canary\"", n+"-2"),
		step("group_name = \"\"", n+"-0", n+"-1"),
		byIndex,
		step("group_name = \"gold\""),
	)
}

func TestAccPlacementDecisionsBadInput(t *testing.T) {
	accTest(t, resource.TestStep{
		Config:   "data \"muster_placement_decisions\" \"test\" {\n  namespace = \"default\"\n  placement = \"where\"\n  group_index = -1\n}\n",
		PlanOnly: true, ExpectError: regexp.MustCompile(`(?s)group_index.*at\s+least\s+0`),
	})
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
	if got := fmt.Sprint(texts(all), texts(groups[0].Clusters), texts(groups[1].Clusters)); got != "[a b c y z] [y a] [z c b]" {
		t.Errorf("got %s", got)
	}
}
