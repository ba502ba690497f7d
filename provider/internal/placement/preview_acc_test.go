package placement_test

import (
	"regexp"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/compare"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

const previewAddress = "data.muster_placement_preview.test"

func previewConfig(body string) string {
	return "data \"muster_placement_preview\" \"test\" {\n" + body + "\n}\n"
}

// Before there is a placement, and of one that there is.
func TestAccPlacementPreview(t *testing.T) {
	const n = "previewed"
	have := func(attribute string, want knownvalue.Check) statecheck.StateCheck {
		return statecheck.ExpectKnownValue(previewAddress, tfjsonpath.New(attribute), want)
	}
	all := "  namespace = \"" + n + "\"\n"
	fleet := choosing(n, "  number_of_clusters = 1\n  tolerations = [{ operator = \"Exists\" }]\n  depends_on = [muster_managed_cluster.many, muster_managed_cluster_set_binding.test]\n")
	acctest.Run(t,
		resource.TestStep{PreConfig: func() { acctest.Someone(t).Namespace(n) }, Config: fleet},
		resource.TestStep{
			// As without defaults that only resources have.
			Config: fleet + previewConfig(all+`
  predicates         = [{ label_selector = { match_expressions = [{ key = "canary", operator = "Exists" }] }, cel_expressions = ["managedCluster.metadata.name != '`+n+`-1'"] }]
  tolerations        = [{ operator = "Exists" }]
  prioritizer_policy = { configurations = [{ built_in = "Steady" }] }
  spread_policy      = { spread_constraints = [{ topology_key = "canary", topology_key_type = "Label" }] }
  decision_strategy  = { decision_groups = [{ name = "canary", label_selector = { match_labels = { canary = "true" } } }] }
  number_of_clusters = 5
`),
			ConfigStateChecks: []statecheck.StateCheck{
				have("exists", knownvalue.Bool(false)),
				have("clusters", listOf(n+"-0", n+"-2")),
				have("added", listOf(n+"-0", n+"-2")),
				have("dropped", listOf()),
				have("satisfied", knownvalue.Bool(false)),
				statecheck.ExpectKnownValue(previewAddress, tfjsonpath.New("groups").AtSliceIndex(0).AtMapKey("name"), knownvalue.StringExact("canary")),
				statecheck.ExpectKnownValue(previewAddress, tfjsonpath.New("groups").AtSliceIndex(0).AtMapKey("clusters"), listOf(n+"-2")),
				statecheck.ExpectKnownValue(previewAddress, tfjsonpath.New("groups").AtSliceIndex(1).AtMapKey("clusters"), listOf(n+"-0")),
				statecheck.ExpectKnownValue(previewAddress, tfjsonpath.New("conditions").AtSliceIndex(1).AtMapKey("message"), knownvalue.StringExact("3 cluster decisions unscheduled")),
				statecheck.ExpectKnownValue(previewAddress, tfjsonpath.New("explanations").AtSliceIndex(2).AtMapKey("reason"), knownvalue.StringRegexp(regexp.MustCompile(`managedCluster.metadata.name != .* is false`))),
				statecheck.ExpectKnownValue(previewAddress, tfjsonpath.New("explanations").AtSliceIndex(0).AtMapKey("rank"), knownvalue.Int64Exact(1)),
			},
		},
		resource.TestStep{
			Config: fleet + previewConfig(all+"  name = \"where\"\n  explain = false\n"),
			ConfigStateChecks: []statecheck.StateCheck{
				have("exists", knownvalue.Bool(true)),
				have("clusters", knownvalue.ListSizeExact(1)),
				have("added", listOf()),
				have("explanations", knownvalue.Null()),
				have("satisfied", knownvalue.Bool(true)),
			},
		},
		resource.TestStep{
			Config: fleet + previewConfig(all+"  name = \"where\"\n  number_of_clusters = 0\n"),
			ConfigStateChecks: []statecheck.StateCheck{
				have("clusters", listOf()),
				have("dropped", knownvalue.ListSizeExact(1)),
			},
		},
		resource.TestStep{
			Config: fleet + previewConfig("  namespace = \"nowhere\"\n  name = \"nobody\"\n"),
			ConfigStateChecks: []statecheck.StateCheck{
				have("exists", knownvalue.Bool(false)),
				statecheck.ExpectKnownValue(previewAddress, tfjsonpath.New("conditions").AtSliceIndex(1).AtMapKey("reason"), knownvalue.StringExact(cluster.ReasonNoManagedClusterSetBindings)),
			},
		},
	)
}

func TestAccPlacementPreviewBadInput(t *testing.T) {
	for name, test := range map[string]struct{ body, want string }{
		"CEL":        {`predicates = [{ cel_expressions = ["1 +"] }]`, `can't\s+be\s+evaluated`},
		"weight":     {`prioritizer_policy = { configurations = [{ built_in = "Steady", weight = 11 }] }`, `(?s)weight.*between\s+-10\s+and\s+10`},
		"toleration": {`tolerations = [{ value = "x" }]`, `Toleration without a key`},
		"name":       {`name = "No"`, `"No" cannot be used as placement name`},
		"group size": {`decision_strategy = { clusters_per_decision_group = "0" }`, `"0" is not a size`},
	} {
		t.Run(name, func(t *testing.T) {
			acctest.Run(t, resource.TestStep{Config: previewConfig("  namespace = \"default\"\n  " + test.body), PlanOnly: true, ExpectError: regexp.MustCompile(test.want)})
		})
	}
}

// The preview is of what the hub then does, whatever the placement asks for.
func TestAccPlacementPreviewIsWhatComesTrue(t *testing.T) {
	const n = "came-true"
	var steps []resource.TestStep
	for _, body := range []string{
		"sort_by = \"Score\"\ntolerations = [{ operator = \"Exists\" }]\n",
		"predicates = [{ claim_selector = { match_expressions = [{ key = \"a\", operator = \"DoesNotExist\" }] } }]\ntolerations = [{ operator = \"Exists\" }]\n",
		"predicates = [{ cel_expressions = [\"managedCluster.metadata.labels['canary'] == 'true'\"] }]\ntolerations = [{ operator = \"Exists\" }]\n",
		"number_of_clusters = 0\n",
		"", // Their taints keep all away.
	} {
		steps = append(steps, resource.TestStep{
			PreConfig: func() { acctest.Someone(t).Namespace(n) },
			Config: choosing(n, body+"  depends_on = [muster_managed_cluster.many, muster_managed_cluster_set_binding.test, data.muster_placement_preview.test]\n") +
				previewConfig("  namespace = \""+n+"\"\n"+body+"  depends_on = [muster_managed_cluster.many, muster_managed_cluster_set_binding.test]\n"),
			ConfigStateChecks: []statecheck.StateCheck{
				statecheck.CompareValuePairs(previewAddress, tfjsonpath.New("clusters"), placementAddress, tfjsonpath.New("selected_clusters"), compare.ValuesSame()),
			},
		})
	}
	acctest.Run(t, steps...)
}
