package manifestwork_test

import (
	"regexp"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
)

func TestAccManifestWorkData(t *testing.T) {
	const address = "data.muster_manifest_work.test"
	config := acctest.WorkConfig("mw-data", acctest.AsYAML+"\n  labels = { app = \"web\" }")
	data := config + "data \"muster_manifest_work\" \"test\" {\n  managed_cluster = \"mw-data\"\n  name            = muster_manifest_work.test.name\n}\n"
	value := func(want knownvalue.Check, at ...any) statecheck.StateCheck {
		path := tfjsonpath.New(at[0].(string))
		for _, step := range at[1:] {
			switch step := step.(type) {
			case int:
				path = path.AtSliceIndex(step)
			case string:
				path = path.AtMapKey(step)
			}
		}
		return statecheck.ExpectKnownValue(address, path, want)
	}
	acctest.Run(t,
		resource.TestStep{
			Config:      `data "muster_manifest_work" "test" {` + "\n  managed_cluster = \"Not A Name\"\n  name = \"x\"\n}\n",
			ExpectError: regexp.MustCompile(`Invalid cluster name`),
		},
		resource.TestStep{
			Config: data,
			ConfigStateChecks: []statecheck.StateCheck{
				value(knownvalue.StringRegexp(regexp.MustCompile(`(?s)kind: ConfigMap.*name: settings`)), "manifests", 0),
				value(knownvalue.ListSizeExact(2), "manifests"),
				value(knownvalue.ListSizeExact(0), "conditions"),
				value(knownvalue.ListSizeExact(0), "resources"),
				value(knownvalue.StringExact("web"), "labels", "app"),
				statecheck.ExpectSensitiveValue(address, tfjsonpath.New("manifests")),
			},
		},
		resource.TestStep{
			PreConfig: func() { reportWork(t, "mw-data", "42") },
			Config:    data,
			ConfigStateChecks: []statecheck.StateCheck{
				value(knownvalue.StringExact("True"), "conditions", 0, "status"),
				value(knownvalue.StringExact("42"), "feedback", 0, "values", "answer"),
				value(knownvalue.ListSizeExact(1), "feedback"),
				value(knownvalue.StringExact("configmaps"), "resources", 0, "resource"),
				value(knownvalue.StringExact("Namespace"), "resources", 1, "kind"),
				value(knownvalue.StringExact("by the test"), "resources", 1, "conditions", 0, "message"),
			},
		},
		resource.TestStep{
			Config:      `data "muster_manifest_work" "test" {` + "\n  managed_cluster = \"mw-data\"\n  name = \"nothing\"\n}\n",
			ExpectError: regexp.MustCompile(`(?s)There is no manifest work "mw-data/nothing".*kubectl get manifestworks -n\s+mw-data`),
		},
	)
}
