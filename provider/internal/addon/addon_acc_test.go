package addon_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
)

// addOnConfig is an add-on with a body.
func addOnConfig(name, body string) string {
	return fmt.Sprintf("resource \"muster_addon\" \"test\" {\n  name = %q\n%s\n}\n", name, body)
}

// A plan of what the hub would refuse, or would take for something else, fails and says
// what to do.
func TestAccAddOnIsCheckedAtPlan(t *testing.T) {
	w := acctest.NewWorkspace(t)
	placed := func(more string) string { return `  placements = [{ namespace = "n", name = "p"` + more + ` }]` }
	for _, x := range []struct{ body, says string }{
		{`  template = "Logger_v2"`, `"Logger_v2" cannot be used as template name`},
		{`  display_name = ""`, "display_name is empty"},
		{`  managed_by = "me"`, `managed_by is "me", but it takes one of hub, self`},
		{`  annotations = { "addon.open-cluster-management.io/lifecycle" = "self" }`, "use managed_by"},
		{`  deployment_config = { name = "c" }`, `attribute "namespace" is required`},
		{`  supported_configs = [{ resource = "AddOnTemplates" }]`, `Write "addontemplates"`},
		{`  supported_configs = [{ resource = "addontemplates" }, { resource = "addontemplates", default = { name = "t" } }]`, "supported_configs[0] and supported_configs[1] name the same kind"},
		{`  supported_configs = [{ resource = "addontemplates", default = { namespace = "n", name = "t" } }]`, "templates of add-ons have no namespace"},
		{`  supported_configs = [{ resource = "addondeploymentconfigs", default = { name = "c" } }]`, "supported_configs[0].default names a deployment configuration"},
		{"  template = \"t\"\n  supported_configs = [{ resource = \"addontemplates\" }]", "template stands for the same kind"},
		{"  deployment_config = { namespace = \"n\", name = \"c\" }\n  supported_configs = [{ resource = \"addondeploymentconfigs\" }]", "deployment_config stands for the same kind"},
		{`  placements = []`, "the hub would remove the add-on from all of them"},
		{`  placements = [{ namespace = "n", name = "p" }, { namespace = "n", name = "p" }]`, "placements[0] and placements[1] both name n/p"},
		{`  placements = [{ namespace = "N", name = "p" }]`, `"N" cannot be used as namespace`},
		{placed(`, configs = []`), "placements[0].configs = [] names no configuration"},
		{placed(`, configs = [{ group = "a/v1", resource = "x", name = "c" }]`), `Write "a"; the version v1 is not needed`},
		{placed(`, rollout_strategy = { type = "Gradual" }`), "it takes one of All, Progressive, ProgressivePerGroup"},
		{placed(`, rollout_strategy = { type = "All", max_failures = "1" }`), `max_failures = "1" has no effect with type = "All"`},
		{placed(`, rollout_strategy = { type = "Progressive", max_concurrency = "0" }`), "would not stop the rollout"},
		{placed(`, rollout_strategy = { type = "Progressive", progress_deadline = "10" }`), "every number needs a unit"},
		{placed("") + "\n  wait = {}", "Nothing to wait for"},
		{placed("") + "\n  wait = { rolled_out = false }", "Nothing to wait for"},
		{`  wait = { available = true }`, "The add-on has no placements"},
	} {
		acctest.Says(t, w.Plan(addOnConfig("checked", x.body)), x.says)
	}
	acctest.Says(t, w.Plan(addOnConfig("Logger", "")), `"Logger" cannot be used as add-on name`)
}

// What is unknown while planning is no mistake.
func TestAccAddOnTakesUnknownValues(t *testing.T) {
	acctest.Someone(t).Namespace("addon-unknown")
	w := acctest.NewWorkspace(t)
	config := `
resource "terraform_data" "late" {
  input = { namespace = "addon-unknown", name = "late", list = [{ namespace = "addon-unknown", name = "late" }], type = "All" }
}
` + addOnConfig("unknown", `
  template          = terraform_data.late.output.name
  deployment_config = { namespace = terraform_data.late.output.namespace, name = "c" }
  supported_configs = [{ group = "", resource = "configmaps", default = { name = terraform_data.late.output.name } }]
  placements = [for p in terraform_data.late.output.list : {
    namespace        = p.namespace
    name             = p.name
    configs          = [{ resource = "addontemplates", name = p.name }]
    rollout_strategy = { type = terraform_data.late.output.type }
  }]`)
	said, ok := w.Apply(config)
	if !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	acctest.Says(t, said, "Missing placement of add-on", "has no placement addon-unknown/late")
	acctest.Says(t, w.Plan(config), "No changes.")
}

// twoSelected is a fleet of the clusters NAME-a to NAME-c, and a placement that selects
// the first two.
func twoSelected(name string) string {
	var clusters strings.Builder
	for _, x := range []string{"a", "b", "c"} {
		fmt.Fprintf(&clusters, `
resource "muster_managed_cluster" %[2]q {
  name        = "%[1]s-%[2]s"
  cluster_set = muster_managed_cluster_set.x.name
}
resource "muster_cluster_acceptance" %[2]q {
  managed_cluster = muster_managed_cluster.%[2]s.name
}
`, name, x)
	}
	return clusters.String() + fmt.Sprintf(`
resource "muster_managed_cluster_set" "x" {
  name = %[1]q
}
resource "muster_managed_cluster_set_binding" "x" {
  namespace   = %[1]q
  cluster_set = muster_managed_cluster_set.x.name
}
resource "muster_placement" "two" {
  namespace          = muster_managed_cluster_set_binding.x.namespace
  name               = "two"
  number_of_clusters = 2
  tolerations        = [{ operator = "Exists" }] # No agent beats for these clusters.
  wait               = { min_clusters = 2 }
  depends_on         = [muster_cluster_acceptance.a, muster_cluster_acceptance.b, muster_cluster_acceptance.c]
}
`, name)
}

// A plan tells which clusters get the add-on and which lose it, also where it was
// installed by hand, and an apply refuses to remove it because a placement is missing.
func TestAccPlanShowsWhereAnAddOnGoes(t *testing.T) {
	someone := acctest.Someone(t)
	someone.Namespace("moves")
	w := acctest.NewWorkspace(t)
	apply := func(config string, says ...string) {
		t.Helper()
		said, ok := w.Apply(config)
		if !ok {
			t.Fatal(acctest.Excerpt(said))
		}
		acctest.Says(t, said, says...)
	}
	fleet := twoSelected("moves")
	apply(fleet + addOnConfig("moves", ""))
	byHand := &v1alpha1.ManagedClusterAddOn{}
	byHand.Namespace, byHand.Name = "moves-c", "moves"
	someone.Apply(byHand)

	two := `  placements = [{ namespace = muster_placement.two.namespace, name = muster_placement.two.name }]`
	acctest.Says(t, w.Plan(fleet+addOnConfig("moves", two)), `Add-on "moves" would be installed in 2 and removed from 1 clusters`,
		"It would be installed in moves-a, moves-b.", "It would be removed, with all that it has there, from moves-c.", "also where it was installed by hand")
	if said := w.Plan(fleet + addOnConfig("moves", "  preview = false\n"+two)); strings.Contains(said, "would be installed") {
		t.Errorf("with preview = false the plan says: %s", acctest.Excerpt(said))
	}
	apply(fleet + addOnConfig("moves", two))
	someone.Wait(&v1alpha1.ManagedClusterAddOn{}, "moves-a", "moves", func() bool { return true })
	someone.Wait(&v1alpha1.ManagedClusterAddOn{}, "moves-b", "moves", func() bool { return true })
	acctest.Says(t, w.Plan(fleet+addOnConfig("moves", two)), "No changes.")
	acctest.Says(t, w.MustRun("state", "show", "-no-color", "muster_addon.test"),
		`planned_added = [ "moves-a", "moves-b", ]`, `planned_clusters = [ "moves-a", "moves-b", ]`, `planned_dropped = [ "moves-c", ]`)

	typo := strings.Replace(two, "name = muster_placement.two.name", `name = "tow"`, 1)
	acctest.Says(t, w.Plan(fleet+addOnConfig("moves", typo)), `The hub has no placement "moves/tow"`, "It would be removed, with all that it has there, from moves-a, moves-b.")
	said, ok := w.Apply(fleet + addOnConfig("moves", typo))
	if ok {
		t.Error("a placement that does not exist was accepted, which removes the add-on everywhere")
	}
	acctest.Says(t, said, "Missing placement of add-on", "so the hub would remove the add-on from moves-a, moves-b. Nothing was changed.")
	live := &v1alpha1.ClusterManagementAddOn{}
	if someone.Get(live, "", "moves"); live.Spec.InstallStrategy.Placements[0].Name != "two" {
		t.Errorf("the hub has %+v", live.Spec.InstallStrategy)
	}
	said, ok = w.Destroy()
	if !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	if someone.Exists(&v1alpha1.ManagedClusterAddOn{}, "moves-a", "moves") {
		t.Error("the add-on is destroyed, and still in a cluster")
	}
}

// Additions by others to what the configuration names change what goes where: the plan
// shows them, and the apply removes them. What has no attribute in the configuration
// stays with its owner.
func TestAccAddOnAdditionsByOthers(t *testing.T) {
	someone := acctest.Someone(t)
	someone.Namespace("addon-added")
	w := acctest.NewWorkspace(t)
	config := addOnConfig("added", `  template   = "t1"
  placements = [{ namespace = "addon-added", name = "p" }]`)
	if said, ok := w.Apply(config); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	someone.Patch(&v1alpha1.ClusterManagementAddOn{}, "", "added", `{
		"metadata":{"annotations":{"addon.open-cluster-management.io/lifecycle":"self"}},
		"spec":{"addOnMeta":{"displayName":"Theirs"},
			"supportedConfigs":[{"group":"addon.open-cluster-management.io","resource":"addontemplates","defaultConfig":{"name":"t2"}},{"resource":"configmaps"}],
			"installStrategy":{"type":"Placements","placements":[{"namespace":"addon-added","name":"p","rolloutStrategy":{"type":"Progressive"}},{"namespace":"addon-added","name":"q"}]}}}`)
	acctest.Says(t, w.Plan(config), `"t2" -> "t1"`, `"configmaps"`, `"q"`, `"Progressive"`)
	if said, ok := w.Apply(config); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	live := &v1alpha1.ClusterManagementAddOn{}
	someone.Get(live, "", "added")
	if s := live.Spec; len(s.SupportedConfigs) != 1 || s.SupportedConfigs[0].DefaultConfig.Name != "t1" || len(s.InstallStrategy.Placements) != 1 || s.InstallStrategy.Placements[0].RolloutStrategy.Type != "All" {
		t.Errorf("left on the hub: %+v", s)
	}
	// The hub takes over an add-on from a template that says that it manages itself, and
	// empties the annotation.
	if _, kept := live.Annotations[addon.LifecycleAnnotation]; live.Spec.AddOnMeta.DisplayName != "Theirs" || !kept {
		t.Errorf("what the configuration does not name was removed: %+v, %v", live.Spec.AddOnMeta, live.Annotations)
	}
	acctest.Says(t, w.Plan(config), "No changes.")
	acctest.Says(t, w.Plan(strings.Replace(config, "template ", "managed_by = \"hub\"\n  template ", 1)), `+ managed_by`)
}

// A wait that is not met names what it waits for, only warns after a creation, and is
// waited for again by the next apply, where it is an error.
func TestAccAddOnWait(t *testing.T) {
	someone := acctest.Someone(t)
	someone.Namespace("addon-waits")
	w := acctest.NewWorkspace(t)
	config := addOnConfig("waits", `  placements = [{ namespace = "addon-waits", name = "nowhere" }]
  wait = { rolled_out = true, available = true }
  timeouts {
    create = "3s"
    update = "3s"
  }`)
	said, ok := w.Apply(config)
	if !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	problem := []string{`Not ready: add-on "waits"`, "Within 3s generation 1 did not reach what is waited for:",
		"rolled_out: placement addon-waits/nowhere: Failed: there is no placement addon-waits/nowhere", "The placements select no cluster."}
	acctest.Says(t, said, append(problem, "the next apply waits again")...)
	said, ok = w.Apply(config)
	if ok {
		t.Error("a wait that is not met is no error of an update")
	}
	acctest.Says(t, said, problem...)
}
