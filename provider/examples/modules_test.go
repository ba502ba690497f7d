package examples_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
)

// notOfAnEntry are the attributes that fleet-onboarding sets without an attribute of
// the same meaning in an entry, and why.
var notOfAnEntry = map[string]string{
	"muster_managed_cluster.name":                 "the key of the entry",
	"muster_cluster_acceptance.managed_cluster":   "the key of the entry",
	"muster_klusterlet.cluster_name":              "the key of the entry",
	"muster_cluster_registration.managed_cluster": "the key of the entry",
	"muster_klusterlet.on_failure":                "one bad cluster does not hold up the others",
	"muster_klusterlet.bootstrap_kubeconfig_wo":   "the variable bootstrap_kubeconfigs, as it is ephemeral",
	"muster_cluster_registration.agent_ready":     "what muster_klusterlet says",
	"muster_managed_cluster.timeouts":             "the variable detach_timeout",
	"muster_cluster_acceptance.timeouts":          "the variable acceptance_timeout",
	"muster_klusterlet.timeouts":                  "the variables agent_timeout and detach_timeout",
	"muster_cluster_registration.timeouts":        "the variable registration_timeout",
}

// What the resources of fleet-onboarding can be told, its users can say: the module
// sets each of their attributes, and its entries have each.
func TestOnboardingPassesEveryAttributeOn(t *testing.T) {
	const module = "../../examples/modules/fleet-onboarding/"
	schemas, err := acctest.ConfiguredServer(t, "http://127.0.0.1:1").GetProviderSchema(t.Context(), &tfprotov6.GetProviderSchemaRequest{})
	testkit.Must(t, err)
	shapes, err := os.ReadFile(module + "shapes.tf")
	testkit.Must(t, err)
	inShapes := map[string]bool{}
	for _, found := range regexp.MustCompile(`"(muster_[a-z_]+\.[a-z_]+)"`).FindAllStringSubmatch(string(shapes), -1) {
		inShapes[found[1]] = true
	}
	set := resourcesOf(t, module+"main.tf")
	for _, name := range []string{
		"muster_managed_cluster", "muster_cluster_acceptance", "muster_klusterlet", "muster_cluster_registration", "muster_bootstrap_token",
	} {
		for _, attribute := range argumentsOf(schemas.ResourceSchemas[name].Block) {
			own := name + "." + strings.SplitN(attribute, ".", 2)[0]
			if !slices.Contains(set[name], attribute) {
				t.Errorf("main.tf does not set %s of %s", attribute, name)
			}
			if !inShapes[own] && notOfAnEntry[own] == "" {
				t.Errorf("no entry has %s: see shapes.tf", own)
			}
		}
	}
	text, err := os.ReadFile(module + "variables.tf")
	testkit.Must(t, err)
	for key := range resourceKeys(t, module+"shapes.tf") {
		if !strings.Contains(string(text), "`"+key+"`") {
			t.Errorf("variables.tf does not describe %s", key)
		}
	}
}

// argumentsOf are the arguments of a block, with those of its blocks.
func argumentsOf(block *tfprotov6.SchemaBlock) (names []string) {
	for _, a := range block.Attributes {
		if a.Optional || a.Required {
			names = append(names, a.Name)
		}
	}
	for _, nested := range block.BlockTypes {
		for _, name := range argumentsOf(nested.Block) {
			names = append(names, nested.TypeName+"."+name)
		}
	}
	return names
}

// resourcesOf are the arguments that a file sets, by the type of the resource.
func resourcesOf(t *testing.T, path string) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for _, block := range bodyOf(t, path).Blocks {
		if block.Type != "resource" {
			continue
		}
		found[block.Labels[0]] = slices.Collect(maps.Keys(block.Body.Attributes))
		for _, nested := range block.Body.Blocks {
			of, body := nested.Type, nested.Body
			if of == "dynamic" {
				of, body = nested.Labels[0], nested.Body.Blocks[0].Body
			}
			for name := range body.Attributes {
				found[block.Labels[0]] = append(found[block.Labels[0]], of+"."+name)
			}
		}
	}
	return found
}

// resourceKeys are the keys of all objects in a file's locals that stand for an
// attribute.
func resourceKeys(t *testing.T, path string) map[string]bool {
	t.Helper()
	keys := map[string]bool{}
	for _, block := range bodyOf(t, path).Blocks {
		_ = hclsyntax.VisitAll(block.Body, func(node hclsyntax.Node) hcl.Diagnostics {
			if object, ok := node.(*hclsyntax.ObjectConsExpr); ok {
				for _, item := range object.Items {
					if key, _ := item.KeyExpr.Value(nil); key.AsString() != "*" {
						keys[key.AsString()] = true
					}
				}
			}
			return nil
		})
	}
	return keys
}

func bodyOf(t *testing.T, path string) *hclsyntax.Body {
	t.Helper()
	file, problems := hclparse.NewParser().ParseHCLFile(filepath.Clean(path))
	if problems.HasErrors() {
		t.Fatal(problems)
	}
	body, ok := file.Body.(*hclsyntax.Body)
	if !ok {
		t.Fatalf("%s is not in the native syntax", path)
	}
	return body
}
