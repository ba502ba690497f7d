package clusterset_test

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
)

const setAddress = "muster_managed_cluster_set.test"

func TestAccManagedClusterSet(t *testing.T) {
	selecting := acctest.SetConfig("set-basic", `
  labels             = { team = "shop" }
  managed_namespaces = ["shop", "shop-jobs"]
  label_selector = {
    match_labels      = { env = "prod" }
    match_expressions = [{ key = "region", operator = "In", values = ["us", "eu"] }]
  }`)
	selectorType := func(want clusterv1beta2.SelectorType) resource.TestCheckFunc {
		return func(*terraform.State) error {
			object := &clusterv1beta2.ManagedClusterSet{}
			acctest.Someone(t).Get(object, "", "set-basic")
			if object.Spec.ClusterSelector.SelectorType != want {
				return fmt.Errorf("got %+v", object.Spec)
			}
			return nil
		}
	}
	acctest.Run(t,
		resource.TestStep{Config: acctest.SetConfig("set-basic", ""), Check: selectorType(clusterv1beta2.ExclusiveClusterSetLabel)},
		resource.TestStep{
			ResourceName: setAddress, ImportState: true, ImportStateId: "set-basic",
			ImportStateVerify: true, ImportStateVerifyIdentifierAttribute: "name",
		},
		resource.TestStep{Config: selecting, Check: selectorType(clusterv1beta2.LabelSelector)},
		resource.TestStep{
			ResourceName: setAddress, ImportState: true, ImportStateId: "set-basic",
			ImportStateVerify: true, ImportStateVerifyIdentifierAttribute: "name",
		},
		resource.TestStep{
			PreConfig: func() {
				acctest.Someone(t).Patch(&clusterv1beta2.ManagedClusterSet{}, "", "set-basic", `{"spec":{"clusterSelector":{"labelSelector":{"matchLabels":{"env":"all"}}},"managedNamespaces":[{"name":"shop"},{"name":"foreign"}]}}`)
			},
			Config: selecting,
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
				plancheck.ExpectResourceAction(setAddress, plancheck.ResourceActionUpdate),
			}},
			Check: func(*terraform.State) error {
				object := &clusterv1beta2.ManagedClusterSet{}
				acctest.Someone(t).Get(object, "", "set-basic")
				if object.Spec.ClusterSelector.LabelSelector.MatchLabels["env"] != "prod" || len(object.Spec.ManagedNamespaces) != 3 {
					return fmt.Errorf("got %+v", object.Spec)
				}
				return nil
			},
		},
		resource.TestStep{
			PreConfig: func() { acctest.Someone(t).Remove(&clusterv1beta2.ManagedClusterSet{}, "", "set-basic") },
			Config:    selecting,
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
				plancheck.ExpectResourceAction(setAddress, plancheck.ResourceActionCreate),
			}},
		},
		resource.TestStep{Config: acctest.SetConfig("set-basic", "label_selector = {}"), Check: selectorType(clusterv1beta2.LabelSelector)},
		resource.TestStep{Config: acctest.SetConfig("set-basic", ""), Check: selectorType(clusterv1beta2.ExclusiveClusterSetLabel)},
	)
}

func TestAccManagedClusterSetBadInput(t *testing.T) {
	for name, test := range map[string]struct{ config, want string }{
		"name":            {acctest.SetConfig("No Set", ""), `"No Set" cannot be used as cluster set name`},
		"missing values":  {acctest.SetConfig("ok", `label_selector = { match_expressions = [{ key = "a", operator = "In" }] }`), `operator In needs values`},
		"needless values": {acctest.SetConfig("ok", `label_selector = { match_expressions = [{ key = "a", operator = "Exists", values = ["x"] }] }`), `operator Exists takes no values`},
		"operator":        {acctest.SetConfig("ok", `label_selector = { match_expressions = [{ key = "a", operator = "Like", values = ["x"] }] }`), `(?s)DoesNotExist.*Like`},
		"namespace":       {acctest.SetConfig("ok", `managed_namespaces = ["No"]`), `"No" cannot be used as namespace`},
	} {
		t.Run(name, func(t *testing.T) {
			acctest.Run(t, resource.TestStep{Config: test.config, PlanOnly: true, ExpectError: regexp.MustCompile(test.want)})
		})
	}
}

func TestAccManagedClusterSetBinding(t *testing.T) {
	const address = "muster_managed_cluster_set_binding.test"
	config := `resource "muster_managed_cluster_set_binding" "test" {
  namespace   = "binding-test"
  cluster_set = "global"
}`
	acctest.Run(t,
		resource.TestStep{Config: config, PreConfig: func() { acctest.Someone(t).Namespace("binding-test") }},
		resource.TestStep{
			ResourceName: address, ImportState: true, ImportStateId: "binding-test/global",
			ImportStateVerify: true, ImportStateVerifyIdentifierAttribute: "cluster_set",
		},
		resource.TestStep{
			PreConfig: func() {
				acctest.Someone(t).Remove(&clusterv1beta2.ManagedClusterSetBinding{}, "binding-test", "global")
			},
			Config: config,
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
				plancheck.ExpectResourceAction(address, plancheck.ResourceActionCreate),
			}},
		},
		resource.TestStep{
			ResourceName: address, ImportState: true, ImportStateId: "global",
			ExpectError: regexp.MustCompile(`the ID has the form\s+NAMESPACE/CLUSTER_SET`),
		},
	)
}

func TestAccManagedClusterSetBindingWithoutItsNamespace(t *testing.T) {
	acctest.Run(t, resource.TestStep{
		Config: `resource "muster_managed_cluster_set_binding" "test" {
  namespace   = "nowhere"
  cluster_set = "global"
}`,
		ExpectError: regexp.MustCompile(`(?s)namespaces "nowhere" not found.*Create the namespace`),
	})
}
