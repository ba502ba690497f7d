package managedcluster_test

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	multiclusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/multicluster/v1alpha1"
)

func TestAccClusterProfilesNeedTheGate(t *testing.T) {
	acctest.Run(t, resource.TestStep{
		Config:      `data "muster_cluster_profiles" "test" {}`,
		ExpectError: regexp.MustCompile(`(?s)The hub keeps no ClusterProfiles.*--feature-gates\s+ClusterProfile=true`),
	})
}

func TestAccClusterProfiles(t *testing.T) {
	hub := acctest.OwnHub(t, "--feature-gates", "ClusterProfile=true")
	o := acctest.OutsiderOf(t, hub)
	o.Namespace("apps")
	const address = "data.muster_cluster_profiles.test"
	config := func(body string) string {
		return fmt.Sprintf(`
provider "muster" {
  kubeconfig_path = %s
}
resource "muster_managed_cluster_set" "blue" {
  name = "blue"
}
resource "muster_managed_cluster_set_binding" "blue" {
  namespace   = "apps"
  cluster_set = muster_managed_cluster_set.blue.name
}
resource "muster_managed_cluster" "test" {
  count       = 2
  name        = ["rome", "paris"][count.index]
  cluster_set = muster_managed_cluster_set.blue.name
}
data "muster_cluster_profiles" "test" {
%s
  depends_on = [muster_managed_cluster.test, muster_managed_cluster_set_binding.blue]
}
`, strconv.Quote(hub.Kubeconfig), body)
	}
	names := func(want ...string) statecheck.StateCheck {
		var checks []knownvalue.Check
		for _, name := range want {
			checks = append(checks, knownvalue.StringExact(name))
		}
		return statecheck.ExpectKnownValue(address, tfjsonpath.New("names"), knownvalue.ListExact(checks))
	}
	at := func(i int, attribute string, want knownvalue.Check) statecheck.StateCheck {
		return statecheck.ExpectKnownValue(address, tfjsonpath.New("profiles").AtSliceIndex(i).AtMapKey(attribute), want)
	}
	acctest.Run(t,
		// The hub makes the profiles a moment after the clusters.
		resource.TestStep{Config: config("")},
		resource.TestStep{
			PreConfig: func() {
				mc := &clusterv1.ManagedCluster{}
				o.Get(mc, "", "paris")
				mc.Status.Version.Kubernetes = "v1.36.0"
				mc.Status.ClusterClaims = []clusterv1.ManagedClusterClaim{{Name: "id.k8s.io", Value: "x"}}
				ctx, cancel := o.Context()
				defer cancel()
				if err := o.Client.UpdateSubresource(ctx, mc, "status", acctest.OutsiderManager); err != nil {
					t.Fatal(err)
				}
				o.Joined("paris")
				for _, name := range []string{"paris", "rome"} {
					p := &multiclusterv1alpha1.ClusterProfile{}
					o.Wait(p, "apps", name, func() bool {
						return name == "rome" || len(p.Status.Conditions) == 2 && p.Status.Conditions[0].Status == metav1.ConditionTrue
					})
				}
			},
			Config: config(`namespace = "apps"`),
			ConfigStateChecks: []statecheck.StateCheck{
				names("paris", "rome"),
				at(0, "namespace", knownvalue.StringExact("apps")),
				at(0, "display_name", knownvalue.StringExact("paris")),
				at(0, "managed_cluster", knownvalue.StringExact("paris")),
				at(0, "cluster_manager", knownvalue.StringExact("open-cluster-management")),
				at(0, "cluster_set", knownvalue.StringExact("blue")),
				at(0, "kubernetes_version", knownvalue.StringExact("v1.36.0")),
				at(0, "properties", knownvalue.MapExact(map[string]knownvalue.Check{"id.k8s.io": knownvalue.StringExact("x")})),
				at(0, "healthy", knownvalue.Bool(true)),
				at(0, "joined", knownvalue.Bool(true)),
				at(1, "healthy", knownvalue.Bool(false)),
				at(1, "kubernetes_version", knownvalue.Null()),
			},
		},
		resource.TestStep{Config: config(`cluster_set = "blue"`), ConfigStateChecks: []statecheck.StateCheck{names("paris", "rome")}},
		resource.TestStep{Config: config(`cluster_set = "red"`), ConfigStateChecks: []statecheck.StateCheck{names()}},
		resource.TestStep{Config: config(`label_selector = "open-cluster-management.io/cluster-name in (rome)"`), ConfigStateChecks: []statecheck.StateCheck{names("rome")}},
		resource.TestStep{Config: config(`namespace = "elsewhere"`), ConfigStateChecks: []statecheck.StateCheck{names()}},
	)
}
