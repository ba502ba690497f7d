package team_test

import (
	"regexp"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-testing/config"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"

	"github.com/muster-fleet/terraform-provider-muster/hubtest"
	"github.com/muster-fleet/terraform-provider-muster/provider"
)

// step applies the module in the folder team. The provider is that of the version
// that go.mod requires, in the test's process: nothing is downloaded.
//
// terraform-plugin-testing reads no states with for_each in the module under test or
// with modules in it; terraform test does.
func step(team string) resource.TestStep {
	return resource.TestStep{
		ProtoV6ProviderFactories: map[string]func() (tfprotov6.ProviderServer, error){
			"muster": providerserver.NewProtocol6WithError(provider.New("test")()),
		},
		ConfigDirectory: config.StaticDirectory("team"),
		ConfigVariables: config.Variables{"team": config.StringVariable(team)},
	}
}

func TestATeamsProductionClustersAreSelected(t *testing.T) {
	hub := start(t, hubtest.Options{Clusters: 2, Join: true})
	t.Setenv("MUSTER_KUBECONFIG", hub.Kubeconfig)
	t.Setenv("TF_ACC_PROVIDER_NAMESPACE", "muster-fleet") // as in the module's required_providers

	created := step("shop")
	created.ConfigPlanChecks.PostApplyPostRefresh = []plancheck.PlanCheck{plancheck.ExpectEmptyPlan()}

	// A cluster comes into the set, beside Terraform.
	selected := step("shop")
	selected.PreConfig = func() {
		const labels = `{"metadata":{"labels":{"cluster.open-cluster-management.io/clusterset":"shop","stage":"production"}}}`
		patch(t, hub, "v1/managedclusters/cluster2", labels)
		waitFor(t, hub, "v1beta1/namespaces/shop/placementdecisions", `"clusterName":"cluster2"`)
	}

	// Somebody deletes the placement: the next plan creates it again.
	restored := step("shop")
	restored.PreConfig = func() { remove(t, hub, "v1beta1/namespaces/shop/placements/production") }
	restored.ConfigPlanChecks.PreApply = []plancheck.PlanCheck{
		plancheck.ExpectResourceAction("muster_placement.production", plancheck.ResourceActionCreate),
	}

	refused := step("The Shop")
	refused.ExpectError = regexp.MustCompile(`The team is the name of a namespace`)

	resource.Test(t, resource.TestCase{Steps: []resource.TestStep{created, selected, restored, refused}})
}
