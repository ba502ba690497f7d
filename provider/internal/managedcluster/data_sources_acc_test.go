package managedcluster_test

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

func TestAccManagedClusterData(t *testing.T) {
	const address = "data.muster_managed_cluster.test"
	acctest.Run(t,
		resource.TestStep{
			Config: acctest.ClusterConfig("data-one", `labels = { env = "prod" }`+"\n  cluster_set = \"blue\"") + "data \"muster_managed_cluster\" \"test\" {\n  name = muster_managed_cluster.test.name\n}\n",
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
` + acctest.ClusterConfig("data-spaced", `cluster_set = "spaced"`) + `
data "muster_managed_cluster" "test" {
  name       = muster_managed_cluster.test.name
  depends_on = [muster_managed_cluster_set.spaced]
}
`
	entry := func(i int, attribute string, want knownvalue.Check) statecheck.StateCheck {
		return statecheck.ExpectKnownValue(address, tfjsonpath.New("managed_namespaces").AtSliceIndex(i).AtMapKey(attribute), want)
	}
	acctest.Run(t,
		resource.TestStep{Config: config},
		resource.TestStep{
			PreConfig: func() {
				o, mc := acctest.Someone(t), &clusterv1.ManagedCluster{}
				o.Wait(mc, "", "data-spaced", func() bool { return len(mc.Status.ManagedNamespaces) == 2 })
				mc.Status.ManagedNamespaces[0].Conditions = []metav1.Condition{{
					Type: cluster.ConditionNamespaceAvailable, Status: metav1.ConditionTrue, Reason: "NamespaceApplied",
					Message: "Namespace successfully applied and managed", LastTransitionTime: metav1.Now(),
				}}
				ctx, cancel := o.Context()
				defer cancel()
				if err := o.Client.UpdateSubresource(ctx, mc, "status", acctest.OutsiderManager); err != nil {
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
	acctest.Run(t,
		resource.TestStep{Config: config(`label_selector = "listed in (yes,maybe)"`), ConfigStateChecks: names("list-a", "list-b", "list-c")},
		resource.TestStep{Config: config(`label_selector = "listed"` + "\n" + `cluster_set = "red"`), ConfigStateChecks: names("list-b", "list-c")},
		resource.TestStep{Config: config(`label_selector = "listed=no"`), ConfigStateChecks: names()},
		resource.TestStep{Config: config(`label_selector = "a in b"`), PlanOnly: true, ExpectError: regexp.MustCompile(`"a in b" is not a label selector`)},
		resource.TestStep{Config: config("")},
	)
}
