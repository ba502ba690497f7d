package replicaset_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testhub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

const replicaSetAddress = "muster_manifest_work_replica_set.test"

func replicaSetConfig(namespace, body string) string {
	return fmt.Sprintf("resource \"muster_manifest_work_replica_set\" \"test\" {\n  namespace = %q\n  name = \"web\"\n%s\n}\n", namespace, body)
}

const (
	replicaSetManifests = `
  manifests = [yamlencode({ apiVersion = "v1", kind = "ConfigMap", metadata = { name = "settings", namespace = "shop" }, data = { answer = "42" } })]`
	replicaSetBasic = replicaSetManifests + `
  placements = [{ name = "europe" }]`
	replicaSetFull = acctest.WithOptions + `
  annotations             = { owner = "shop" }
  cascade_deletion_policy = "Foreground"
  gates = [
    { group = "stores", window = { days = ["Sat", "Sun"], from = "22:00", to = "04:00", time_zone = "Europe/Berlin" } },
    { group = "*" },
  ]
  placements = [
    {
      name = "europe"
      rollout_strategy = {
        type                      = "Progressive"
        progress_deadline         = "10m"
        min_success_time          = "300s"
        max_failures              = "25%"
        max_concurrency           = "3"
        mandatory_decision_groups = [{ group_name = "canary" }, { group_index = 0 }]
      }
    },
    { name = "asia", rollout_strategy = { type = "ProgressivePerGroup", max_failures = "1" } },
    { name = "africa", rollout_strategy = { type = "All", progress_deadline = "1h30m" } },
    { name = "america" },
  ]`
)

func planned(action plancheck.ResourceActionType) resource.ConfigPlanChecks {
	return resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectResourceAction(replicaSetAddress, action)}}
}

// gatedHub is a hub of the test's own that makes the works of replica sets.
func gatedHub(t *testing.T) *testhub.Process { return hubWithGate(t, true) }

// hubWithGate is one that does, or does not.
func hubWithGate(t *testing.T, on bool) *testhub.Process {
	t.Helper()
	return acctest.OwnHub(t, "--feature-gates", fmt.Sprintf("ManifestWorkReplicaSet=%t", on))
}

func connectedTo(hub *testhub.Process) string {
	return fmt.Sprintf("provider \"muster\" {\n  kubeconfig_path = %q\n}\n", hub.Kubeconfig)
}

func replicaSetOn(hub *testhub.Process, namespace, body string) string {
	return connectedTo(hub) + replicaSetConfig(namespace, body)
}

func TestAccManifestWorkReplicaSet(t *testing.T) {
	hub := gatedHub(t)
	for name, test := range map[string]func(*testing.T, *testhub.Process){
		"life":                  replicaSetLife,
		"edited outside":        replicaSetEditedOutside,
		"imported":              replicaSetImported,
		"shows what changes":    replicaSetChanges,
		"objects and secrets":   replicaSetObjectsAndSecrets,
		"unknown inputs":        replicaSetUnknownInputs,
		"of another manager":    replicaSetOfAnotherManager,
		"without its namespace": replicaSetWithoutItsNamespace,
	} {
		t.Run(name, func(t *testing.T) { test(t, hub) })
	}
}

func TestAccManifestWorkReplicaSetNeedsTheGate(t *testing.T) {
	acctest.Run(t, resource.TestStep{
		Config:      replicaSetOn(hubWithGate(t, false), "default", replicaSetBasic),
		ExpectError: acctest.Saying("makes no works of replica sets. Its feature gate has to be on: muster hub --feature-gates ManifestWorkReplicaSet=true"),
	})
}

func replicaSetLife(t *testing.T, hub *testhub.Process) {
	config := replicaSetOn(hub, "mwrs-basic", replicaSetFull)
	object := func() *workv1alpha1.ManifestWorkReplicaSet {
		object := &workv1alpha1.ManifestWorkReplicaSet{}
		acctest.OutsiderOf(t, hub).Get(object, "mwrs-basic", "web")
		return object
	}
	acctest.Run(t,
		resource.TestStep{
			PreConfig: func() { acctest.OutsiderOf(t, hub).Namespace("mwrs-basic") },
			Config:    config,
			Check: func(*terraform.State) error {
				o := object()
				template, refs := o.Spec.ManifestWorkTemplate, o.Spec.PlacementRefs
				switch {
				case len(template.Workload.Manifests) != 2 || !strings.Contains(string(template.Workload.Manifests[0].Raw), `"answer":"42"`):
				case template.DeleteOption == nil || template.Executor == nil || len(template.ManifestConfigs) != 2:
				case o.Labels["app"] != "web" || o.Annotations["owner"] != "shop" || o.Spec.CascadeDeletionPolicy != "Foreground":
				case len(refs) != 4 || refs[3].RolloutStrategy.Type != "All":
				case refs[0].RolloutStrategy.Progressive.MaxFailures.StrVal != "25%" || refs[0].RolloutStrategy.Progressive.MaxConcurrency.IntVal != 3:
				case len(refs[0].RolloutStrategy.Progressive.MandatoryDecisionGroups.MandatoryDecisionGroups) != 2:
				case refs[1].RolloutStrategy.ProgressivePerGroup.MaxFailures.IntVal != 1 || refs[2].RolloutStrategy.All.ProgressDeadline != "1h30m":
				default:
					return nil
				}
				return fmt.Errorf("got %+v", o)
			},
		},
		resource.TestStep{
			ResourceName: replicaSetAddress, ImportState: true, ImportStateId: "mwrs-basic/web",
			ImportStateVerify: true, ImportStateVerifyIdentifierAttribute: "name", ImportStateVerifyIgnore: []string{"manifests", "objects", "fields", "summary", "placement_summaries", "conditions", "rolled_out"}, // the hub goes on reporting
		},
		// Other words for the same are no change.
		resource.TestStep{
			Config:           strings.NewReplacer(`"300s"`, `"5m"`, `{ name = "america" }`, `{ name = "america", rollout_strategy = { type = "All" } }`, "# A comment.", "# Another.").Replace(config),
			ConfigPlanChecks: planned(plancheck.ResourceActionNoop),
		},
		resource.TestStep{
			PreConfig: func() {
				acctest.OutsiderOf(t, hub).Remove(&workv1alpha1.ManifestWorkReplicaSet{}, "mwrs-basic", "web")
			},
			Config:           config,
			ConfigPlanChecks: planned(plancheck.ResourceActionCreate),
		},
		// What the configuration gives up is given up on the hub.
		resource.TestStep{
			Config: replicaSetOn(hub, "mwrs-basic", replicaSetBasic),
			Check: func(*terraform.State) error {
				o := object()
				if gates := o.Annotations[muster.RolloutGatesAnnotation]; gates != "" {
					return fmt.Errorf("the gates that the configuration gave up are still there: %s", gates)
				}
				if s := o.Spec; len(o.Labels)+len(s.ManifestWorkTemplate.ManifestConfigs) > 0 || s.ManifestWorkTemplate.Executor != nil || s.ManifestWorkTemplate.DeleteOption != nil ||
					len(s.PlacementRefs) != 1 || s.PlacementRefs[0].RolloutStrategy.Type != "All" || s.CascadeDeletionPolicy != "Background" {
					return fmt.Errorf("what the configuration gave up is still there: %+v", o)
				}
				return nil
			},
		},
		resource.TestStep{
			ResourceName: replicaSetAddress, ImportState: true, ImportStateKind: resource.ImportBlockWithID, ImportStateId: "mwrs-basic/web",
			Config: replicaSetOn(hub, "mwrs-basic", replicaSetBasic),
		},
	)
}

// What somebody else changed of what the configuration sets is put right, and
// nothing else.
func replicaSetEditedOutside(t *testing.T, hub *testhub.Process) {
	config := replicaSetOn(hub, "mwrs-edited", replicaSetFull)
	steps := []resource.TestStep{{PreConfig: func() { acctest.OutsiderOf(t, hub).Namespace("mwrs-edited") }, Config: config}}
	for _, edit := range []struct {
		patch string
		want  plancheck.ResourceActionType
	}{
		{`{"metadata":{"labels":{"app":"other"}}}`, plancheck.ResourceActionUpdate},
		{`{"metadata":{"labels":{"foreign":"x"}}}`, plancheck.ResourceActionNoop},
		{`{"metadata":{"annotations":{"owner":"other"}}}`, plancheck.ResourceActionUpdate},
		{`{"spec":{"cascadeDeletionPolicy":"Background"}}`, plancheck.ResourceActionUpdate},
		{`{"spec":{"placementRefs":[{"name":"europe"}]}}`, plancheck.ResourceActionUpdate},
		{`{"spec":{"manifestWorkTemplate":{"workload":{"manifests":[{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop"}}]}}}}`, plancheck.ResourceActionUpdate},
		{`{"spec":{"manifestWorkTemplate":{"deleteOption":{"propagationPolicy":"Orphan"}}}}`, plancheck.ResourceActionUpdate},
		{`{"spec":{"manifestWorkTemplate":{"manifestConfigs":null}}}`, plancheck.ResourceActionUpdate},
		{`{"spec":{"manifestWorkTemplate":{"executor":{"subject":{"serviceAccount":{"name":"other"}}}}}}`, plancheck.ResourceActionUpdate},
	} {
		steps = append(steps, resource.TestStep{
			PreConfig: func() {
				acctest.OutsiderOf(t, hub).Patch(&workv1alpha1.ManifestWorkReplicaSet{}, "mwrs-edited", "web", edit.patch)
			},
			Config:           config,
			ConfigPlanChecks: planned(edit.want),
		})
	}
	steps = append(steps, resource.TestStep{
		Config: config,
		ConfigStateChecks: []statecheck.StateCheck{
			statecheck.ExpectKnownValue(replicaSetAddress, tfjsonpath.New("labels"), knownvalue.MapSizeExact(1)),
			statecheck.ExpectKnownValue(replicaSetAddress, tfjsonpath.New("placements").AtSliceIndex(0).AtMapKey("rollout_strategy").AtMapKey("max_concurrency"), knownvalue.StringExact("3")),
		},
	})
	acctest.Run(t, steps...)
}

// An imported replica set has another wording than the configuration, and still
// nothing to do.
func replicaSetImported(t *testing.T, hub *testhub.Process) {
	config := strings.Replace(replicaSetOn(hub, "mwrs-import", replicaSetFull), `{ name = "america" }`, `{ name = "america", rollout_strategy = { type = "All", progress_deadline = "None" } }`, 1)
	acctest.Run(t,
		resource.TestStep{PreConfig: func() { acctest.OutsiderOf(t, hub).Namespace("mwrs-import") }, Config: config},
		resource.TestStep{
			ResourceName: replicaSetAddress, ImportState: true, ImportStateKind: resource.ImportBlockWithID, ImportStateId: "mwrs-import/web",
			Config: config,
		},
	)
}

// A replica set takes its objects like a work: as HCL, and write-only.
func replicaSetObjectsAndSecrets(t *testing.T, hub *testhub.Process) {
	config := func(answer, password, more string) string {
		return fmt.Sprintf("variable \"password\" {\n  default   = %q\n  ephemeral = true\n}\n", password) + replicaSetOn(hub, "mwrs-objects", fmt.Sprintf(`
  objects      = [{ apiVersion = "v1", kind = "ConfigMap", metadata = { name = "settings", namespace = "shop" }, data = { answer = %q } }]
  manifests_wo = [yamlencode({ apiVersion = "v1", kind = "Secret", metadata = { name = "login", namespace = "shop" }, stringData = { password = var.password } })]
  placements   = [{ name = "europe" }]
%s`, answer, more))
	}
	sent := func(wanted ...string) resource.TestCheckFunc {
		return func(s *terraform.State) error {
			object := &workv1alpha1.ManifestWorkReplicaSet{}
			acctest.OutsiderOf(t, hub).Get(object, "mwrs-objects", "web")
			text, err := json.Marshal(object.Spec.ManifestWorkTemplate.Workload)
			if err != nil {
				return err
			}
			for _, want := range wanted {
				if !strings.Contains(string(text), want) {
					return fmt.Errorf("%s is not in %s", want, text)
				}
			}
			if note := object.Annotations[work.WriteOnlyAnnotation]; note != `["v1/Secret shop/login"]` {
				return fmt.Errorf("the write-only manifests are noted as %q", note)
			}
			if state := fmt.Sprint(s.RootModule().Resources[replicaSetAddress].Primary.Attributes); strings.Contains(state, "hunter") {
				return fmt.Errorf("the secret is in the state: %s", state)
			}
			return nil
		}
	}
	version := func(want string) []statecheck.StateCheck {
		return []statecheck.StateCheck{statecheck.ExpectKnownValue(replicaSetAddress, tfjsonpath.New("fields").AtMapKey("v1/Secret shop/login").AtMapKey("(write-only)"), knownvalue.StringExact(want))}
	}
	acctest.Run(t,
		resource.TestStep{
			PreConfig: func() { acctest.OutsiderOf(t, hub).Namespace("mwrs-objects") },
			Config:    config("1", "hunter1", "manifests_wo_version = 1"), Check: sent("hunter1", `"answer":"1"`), ConfigStateChecks: version("(sensitive, version 1)"),
		},
		resource.TestStep{Config: config("1", "hunter2", "manifests_wo_version = 1"), ConfigPlanChecks: planned(plancheck.ResourceActionNoop), Check: sent("hunter1")},
		resource.TestStep{
			Config: config("2", "hunter3", "manifests_wo_version = 2"), Check: sent("hunter3", `"answer":"2"`), ConfigStateChecks: version("(sensitive, version 2)"),
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
				plancheck.ExpectResourceAction(replicaSetAddress, plancheck.ResourceActionUpdate),
				plancheck.ExpectUnknownValue(replicaSetAddress, tfjsonpath.New("generation")),
			}},
		},
		// What the replica set does not roll out again is known while planning.
		resource.TestStep{
			Config: config("2", "hunter3", "manifests_wo_version = 2\n  labels = { a = \"b\" }"), Check: sent("hunter3"),
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
				plancheck.ExpectKnownValue(replicaSetAddress, tfjsonpath.New("generation"), knownvalue.Int64Exact(2)),
				plancheck.ExpectKnownValue(replicaSetAddress, tfjsonpath.New("rolled_out"), knownvalue.Bool(false)),
			}},
		},
		resource.TestStep{
			ResourceName: replicaSetAddress, ImportState: true, ImportStateKind: resource.ImportBlockWithID, ImportStateId: "mwrs-objects/web",
			Config: config("2", "hunter3", "labels = { a = \"b\" }"),
		},
	)
}

// The manifests are sensitive; their fields show what a plan changes in them.
func replicaSetChanges(t *testing.T, hub *testhub.Process) {
	config := func(answer, password string) string {
		return replicaSetOn(hub, "mwrs-fields", fmt.Sprintf(`
  manifests = [
    yamlencode({ apiVersion = "v1", kind = "ConfigMap", metadata = { name = "settings", namespace = "shop" }, data = { answer = %q } }),
    yamlencode({ apiVersion = "v1", kind = "Secret", metadata = { name = "login", namespace = "shop" }, stringData = { password = %q } }),
  ]
  placements = [{ name = "europe" }]`, answer, password))
	}
	field := func(object, at, want string) (plancheck.PlanCheck, statecheck.StateCheck) {
		where, value := tfjsonpath.New("fields").AtMapKey(object).AtMapKey(at), knownvalue.StringExact(want)
		return plancheck.ExpectKnownValue(replicaSetAddress, where, value), statecheck.ExpectKnownValue(replicaSetAddress, where, value)
	}
	step := func(config, answer, password string) resource.TestStep {
		planAnswer, stateAnswer := field("v1/ConfigMap shop/settings", "data.answer", answer)
		planPassword, statePassword := field("v1/Secret shop/login", "stringData.password", password)
		return resource.TestStep{
			Config:            config,
			ConfigPlanChecks:  resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{planAnswer, planPassword}},
			ConfigStateChecks: []statecheck.StateCheck{stateAnswer, statePassword},
		}
	}
	first := step(config("42", "hush"), "42", "(sensitive, version 1)")
	first.PreConfig = func() { acctest.OutsiderOf(t, hub).Namespace("mwrs-fields") }
	drifted := step(config("43", "hush"), "43", "(sensitive, version 3)")
	drifted.PreConfig = func() {
		acctest.OutsiderOf(t, hub).Patch(&workv1alpha1.ManifestWorkReplicaSet{}, "mwrs-fields", "web",
			`{"spec":{"manifestWorkTemplate":{"workload":{"manifests":[{"apiVersion":"v1","kind":"Secret","metadata":{"name":"login","namespace":"shop"},"stringData":{"password":"other"}}]}}}}`)
	}
	acctest.Run(t, first, step(config("43", "hush"), "43", "(sensitive, version 1)"), drifted)
}

// Everything that a configuration can set may come from elsewhere and be unknown
// while planning.
func replicaSetUnknownInputs(t *testing.T, hub *testhub.Process) {
	config := func(answer string) string {
		return connectedTo(hub) + fmt.Sprintf(`
resource "terraform_data" "x" {
  input = {
    name     = "web"
    where    = "europe"
    number   = "3"
    deadline = "5m"
    kind     = "Progressive"
    group    = "canary"
    manifest = yamlencode({ apiVersion = "v1", kind = "ConfigMap", metadata = { name = "settings", namespace = "shop" }, data = { answer = %q } })
  }
}
resource "muster_manifest_work_replica_set" "test" {
  namespace = "mwrs-unknown"
  name      = terraform_data.x.output.name
  manifests = [terraform_data.x.output.manifest]
  placements = [for name in [terraform_data.x.output.where, "asia"] : {
    name = name
    rollout_strategy = {
      type                      = terraform_data.x.output.kind
      max_failures              = terraform_data.x.output.number
      max_concurrency           = terraform_data.x.output.number
      min_success_time          = terraform_data.x.output.deadline
      progress_deadline         = terraform_data.x.output.deadline
      mandatory_decision_groups = [{ group_name = terraform_data.x.output.group }]
    }
  }]
  wait     = terraform_data.x.output.number == "0" ? { rolled_out = true } : null
}
`, answer)
	}
	acctest.Run(t,
		resource.TestStep{PreConfig: func() { acctest.OutsiderOf(t, hub).Namespace("mwrs-unknown") }, Config: config("42")},
		resource.TestStep{
			Config:           config("43"),
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectUnknownValue(replicaSetAddress, tfjsonpath.New("rolled_out"))}},
		},
	)
}

// What somebody else manages is not taken over unasked.
func replicaSetOfAnotherManager(t *testing.T, hub *testhub.Process) {
	acctest.Run(t,
		resource.TestStep{
			PreConfig: func() {
				o := acctest.OutsiderOf(t, hub)
				o.Namespace("mwrs-adopt")
				object := &workv1alpha1.ManifestWorkReplicaSet{}
				object.Namespace, object.Name, object.Labels = "mwrs-adopt", "web", map[string]string{"foreign": "x"}
				object.Spec.PlacementRefs = []workv1alpha1.LocalPlacementReference{{Name: "asia"}}
				object.Spec.ManifestWorkTemplate.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"x"}}`)}}}
				o.Apply(object)
			},
			Config:      replicaSetOn(hub, "mwrs-adopt", replicaSetBasic),
			ExpectError: acctest.Saying(`manifests[Namespace x] is only there`, `spec.placementRefs[asia] is only there`, `"kubectl-edit"`),
		},
		resource.TestStep{
			Config: replicaSetOn(hub, "mwrs-adopt", replicaSetBasic+"\n  adopt = true"),
			Check: func(*terraform.State) error {
				object := &workv1alpha1.ManifestWorkReplicaSet{}
				acctest.OutsiderOf(t, hub).Get(object, "mwrs-adopt", "web")
				if object.Spec.PlacementRefs[0].Name != "europe" || object.Labels["foreign"] != "x" {
					return fmt.Errorf("got %+v", object)
				}
				return nil
			},
		},
	)
}

func replicaSetWithoutItsNamespace(t *testing.T, hub *testhub.Process) {
	acctest.Run(t, resource.TestStep{
		Config: replicaSetOn(hub, "mwrs-missing", replicaSetBasic), ExpectError: acctest.Saying("Create the namespace on the hub first"),
	})
}
