package provider

import (
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"
	resourceapi "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

func TestAccManagedClusterData(t *testing.T) {
	const address = "data.muster_managed_cluster.test"
	accTest(t,
		resource.TestStep{
			Config: clusterConfig("data-one", `labels = { env = "prod" }`+"\n  cluster_set = \"blue\"") + "data \"muster_managed_cluster\" \"test\" {\n  name = muster_managed_cluster.test.name\n}\n",
			ConfigStateChecks: []statecheck.StateCheck{
				statecheck.ExpectKnownValue(address, tfjsonpath.New("accepted"), knownvalue.Bool(false)),
				statecheck.ExpectKnownValue(address, tfjsonpath.New("joined"), knownvalue.Bool(false)),
				statecheck.ExpectKnownValue(address, tfjsonpath.New("available"), knownvalue.StringExact("Unknown")),
				statecheck.ExpectKnownValue(address, tfjsonpath.New("cluster_set"), knownvalue.StringExact("blue")),
			},
		},
		resource.TestStep{
			Config:      `data "muster_managed_cluster" "test" { name = "nobody" }`,
			ExpectError: regexp.MustCompile(`There is no managed cluster "nobody"`),
		},
	)
}

// What a set wants in its clusters shows in each of them, with what the agent
// says.
func TestAccManagedNamespacesData(t *testing.T) {
	const address = "data.muster_managed_cluster.test"
	config := `
resource "muster_managed_cluster_set" "spaced" {
  name               = "spaced"
  managed_namespaces = ["team-b", "team-a"]
}
` + clusterConfig("data-spaced", `cluster_set = "spaced"`) + `
data "muster_managed_cluster" "test" {
  name       = muster_managed_cluster.test.name
  depends_on = [muster_managed_cluster_set.spaced]
}
`
	entry := func(i int, attribute string, want knownvalue.Check) statecheck.StateCheck {
		return statecheck.ExpectKnownValue(address, tfjsonpath.New("managed_namespaces").AtSliceIndex(i).AtMapKey(attribute), want)
	}
	accTest(t,
		resource.TestStep{Config: config},
		resource.TestStep{
			PreConfig: func() {
				o, mc := someone(t), &clusterv1.ManagedCluster{}
				o.wait(mc, "", "data-spaced", func() bool { return len(mc.Status.ManagedNamespaces) == 2 })
				mc.Status.ManagedNamespaces[0].Conditions = []metav1.Condition{{
					Type: cluster.ConditionNamespaceAvailable, Status: metav1.ConditionTrue, Reason: "NamespaceApplied",
					Message: "Namespace successfully applied and managed", LastTransitionTime: metav1.Now(),
				}}
				ctx, cancel := o.context()
				defer cancel()
				if err := o.client.UpdateSubresource(ctx, mc, "status", outsiderManager); err != nil {
					t.Fatal(err)
				}
			},
			Config: config,
			ConfigStateChecks: []statecheck.StateCheck{
				entry(0, "name", knownvalue.StringExact("team-a")),
				entry(0, "cluster_set", knownvalue.StringExact("spaced")),
				entry(0, "available", knownvalue.Bool(true)),
				entry(0, "message", knownvalue.StringExact("Namespace successfully applied and managed")),
				entry(1, "name", knownvalue.StringExact("team-b")),
				entry(1, "available", knownvalue.Bool(false)),
				entry(1, "message", knownvalue.Null()),
			},
		},
	)
}

func TestAccManagedClustersData(t *testing.T) {
	const address = "data.muster_managed_clusters.test"
	config := func(body string) string {
		return fmt.Sprintf(`
resource "muster_managed_cluster" "many" {
  count       = 3
  name        = ["list-c", "list-a", "list-b"][count.index]
  cluster_set = ["red", "green", "red"][count.index]
  labels      = { listed = "yes" }
}
data "muster_managed_clusters" "test" {
%s
  depends_on = [muster_managed_cluster.many]
}
`, body)
	}
	names := func(want ...string) []statecheck.StateCheck {
		var checks []knownvalue.Check
		for _, name := range want {
			checks = append(checks, knownvalue.StringExact(name))
		}
		return []statecheck.StateCheck{statecheck.ExpectKnownValue(address, tfjsonpath.New("names"), knownvalue.ListExact(checks))}
	}
	accTest(t,
		resource.TestStep{Config: config(`label_selector = "listed in (yes,maybe)"`), ConfigStateChecks: names("list-a", "list-b", "list-c")},
		resource.TestStep{Config: config(`label_selector = "listed"` + "\n" + `cluster_set = "red"`), ConfigStateChecks: names("list-b", "list-c")},
		resource.TestStep{Config: config(`label_selector = "listed=no"`), ConfigStateChecks: names()},
		resource.TestStep{Config: config(`label_selector = "a in b"`), PlanOnly: true, ExpectError: regexp.MustCompile(`"a in b" is not a label selector`)},
		resource.TestStep{Config: config("")},
	)
}

// A placement that the same apply makes has its answer at once.
func TestAccPlacementDecisions(t *testing.T) {
	const address = "data.muster_placement_decisions.test"
	config := func(number int, body string) string {
		return fmt.Sprintf(`
resource "muster_managed_cluster" "many" {
  count       = 3
  name        = "placed-${count.index}"
  cluster_set = "placed"
  labels      = { canary = tostring(count.index == 2) }
}
resource "muster_managed_cluster_set" "placed" { name = "placed" }
resource "muster_managed_cluster_set_binding" "placed" {
  namespace   = "default"
  cluster_set = muster_managed_cluster_set.placed.name
}
resource "muster_placement" "test" {
  namespace          = muster_managed_cluster_set_binding.placed.namespace
  name               = "placed"
  cluster_sets       = [muster_managed_cluster_set_binding.placed.cluster_set]
  number_of_clusters = %d
  tolerations        = [{ operator = "Exists" }]
  decision_strategy  = { decision_groups = [{ name = "canary", label_selector = { match_labels = { canary = "true" } } }] }
  depends_on         = [muster_managed_cluster.many]
}
data "muster_placement_decisions" "test" {
  namespace = muster_placement.test.namespace
  placement = muster_placement.test.name
%s
  depends_on = [muster_placement.test]
}
`, number, body)
	}
	first := func(group int, field string) tfjsonpath.Path {
		return tfjsonpath.New("groups").AtSliceIndex(group).AtMapKey(field)
	}
	accTest(t,
		resource.TestStep{
			Config: config(3, "wait = true"),
			ConfigStateChecks: []statecheck.StateCheck{
				statecheck.ExpectKnownValue(address, tfjsonpath.New("clusters"), knownvalue.ListExact([]knownvalue.Check{
					knownvalue.StringExact("placed-0"), knownvalue.StringExact("placed-1"), knownvalue.StringExact("placed-2"),
				})),
				statecheck.ExpectKnownValue(address, first(0, "name"), knownvalue.StringExact("canary")),
				statecheck.ExpectKnownValue(address, first(0, "clusters"), knownvalue.ListExact([]knownvalue.Check{knownvalue.StringExact("placed-2")})),
				statecheck.ExpectKnownValue(address, tfjsonpath.New("satisfied"), knownvalue.Bool(true)),
			},
		},
		resource.TestStep{
			Config:      config(5, "wait = true\n  timeouts { read = \"2s\" }"),
			ExpectError: regexp.MustCompile(`(?s)not decided as asked for.*PlacementSatisfied is\s+False.*kubectl\s+describe\s+placement\s+-n\s+default\s+placed`),
		},
	)
}

func TestAccPlacementDecisionsOfNoPlacement(t *testing.T) {
	accTest(t, resource.TestStep{
		Config: `data "muster_placement_decisions" "test" {
  namespace = "default"
  placement = "nowhere"
}`,
		ExpectError: regexp.MustCompile(`has no placement\s+"nowhere"`),
	})
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
	if fmt.Sprint(texts(all)) != "[a b c m z]" {
		t.Errorf("clusters are %v", all)
	}
	got := ""
	for _, g := range groups {
		got += fmt.Sprintf("%d %s %v;", g.Index.ValueInt64(), g.Name.ValueString(), texts(g.Clusters))
	}
	if got != "0 canary [m];2  [b a c];10  [z];" {
		t.Errorf("groups are %s", got)
	}
	all, groups = decided([]clusterv1beta1.PlacementDecision{decision("p-decision-1", "0", "")})
	if all == nil || groups == nil || len(all)+len(groups) != 0 {
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
		"not looked at yet":       {&clusterv1beta1.Placement{}, false, 0, false},
		"an older generation":     {placement(metav1.ConditionTrue, 1, 3), false, 0, false},
		"the present generation":  {placement(metav1.ConditionFalse, 2, 0), false, 0, true},
		"generation not recorded": {placement(metav1.ConditionTrue, 0, 3), false, 0, true},
		"waited for in vain":      {placement(metav1.ConditionFalse, 2, 1), true, 0, false},
		"satisfied":               {placement(metav1.ConditionTrue, 2, 1), true, 0, true},
		"too few":                 {placement(metav1.ConditionTrue, 2, 1), false, 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := placementDecisionsModel{Wait: types.BoolValue(test.wait), MinClusters: types.Int64Value(test.minimum)}
			if got := m.enough(test.placement); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

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
	for name, source := range map[string]datasource.DataSource{"one": newManagedClusterDataSource(), "many": newManagedClustersDataSource()} {
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
