package manifestwork_test

import (
	"context"
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

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

const (
	asObjects = `  objects = [
    { apiVersion = "v1", kind = "Namespace", metadata = { name = "shop" } },
    { apiVersion = "apps/v1", kind = "Deployment", metadata = { name = "web", namespace = "shop", labels = { "app.kubernetes.io/name" = "web" } }
      spec = { replicas = 1, paused = false, selector = { matchLabels = { app = "web" } }, template = { metadata = { labels = { app = "web" } }, spec = { containers = [{ name = "web", image = "nginx:1" }] } } } },
  ]`
	asObjectsOtherwise = `  objects = [
    { kind = "Namespace", apiVersion = "v1", metadata = { name = "shop", namespace = null, labels = null }, spec = null },
    { kind = "Deployment", apiVersion = "apps/v1", metadata = { name = "web", namespace = "shop", labels = { "app.kubernetes.io/name" = "web" } }
      spec = { replicas = 2 / 2, paused = false, selector = { matchLabels = { app = "web" } }, template = { metadata = { labels = { app = "web" } }, spec = { containers = [{ image = "nginx:1", name = "web", args = null }] } } } },
  ]`
	shopSecret = `apiVersion = "v1", kind = "Secret", metadata = { name = "login", namespace = "shop" }`
)

func expect(action plancheck.ResourceActionType) resource.ConfigPlanChecks {
	return resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectResourceAction(acctest.WorkAddress, action)}}
}

// field is the path of a value in the attribute fields.
func field(object, at string) tfjsonpath.Path {
	return tfjsonpath.New("fields").AtMapKey(object).AtMapKey(at)
}

func has(at tfjsonpath.Path, want string) statecheck.StateCheck {
	return statecheck.ExpectKnownValue(acctest.WorkAddress, at, knownvalue.StringExact(want))
}

func plans(at tfjsonpath.Path, want string) plancheck.PlanCheck {
	return plancheck.ExpectKnownValue(acctest.WorkAddress, at, knownvalue.StringExact(want))
}

// onHub checks the work as the hub has it.
func onHub(t *testing.T, cluster string, check func(*workv1.ManifestWork) error) resource.TestCheckFunc {
	return func(*terraform.State) error {
		object := &workv1.ManifestWork{}
		acctest.Someone(t).Get(object, cluster, "web")
		return check(object)
	}
}

func contains(wanted ...string) func(*workv1.ManifestWork) error {
	return func(object *workv1.ManifestWork) error {
		text, err := json.Marshal(object.Spec.Workload)
		if err != nil {
			return err
		}
		for _, want := range wanted {
			if !strings.Contains(string(text), want) {
				return fmt.Errorf("%s is not in %s", want, text)
			}
		}
		return nil
	}
}

func TestAccManifestWorkObjects(t *testing.T) {
	generation := int64(0)
	acctest.Run(t,
		resource.TestStep{
			Config: acctest.WorkConfig("mw-objects", asObjects),
			Check: onHub(t, "mw-objects", func(object *workv1.ManifestWork) error {
				generation = object.Generation
				return contains(`"kind":"Namespace"`, `"replicas":1,`)(object)
			}),
			ConfigStateChecks: []statecheck.StateCheck{statecheck.ExpectKnownValue(acctest.WorkAddress, tfjsonpath.New("fields"), knownvalue.MapSizeExact(0))},
		},
		resource.TestStep{Config: acctest.WorkConfig("mw-objects", asObjectsOtherwise), ConfigPlanChecks: expect(plancheck.ResourceActionNoop)},
		// From one input to another: the hub sees nothing of it.
		resource.TestStep{
			Config:            acctest.WorkConfig("mw-objects", strings.Replace(asObjects, "  objects = [", "  manifests = [for o in [", 1)+" : jsonencode(o)]"),
			ConfigPlanChecks:  expect(plancheck.ResourceActionUpdate),
			ConfigStateChecks: []statecheck.StateCheck{has(field("apps/v1/Deployment shop/web", `metadata.labels["app.kubernetes.io/name"]`), "web")},
			Check: onHub(t, "mw-objects", func(object *workv1.ManifestWork) error {
				if object.Generation != generation {
					return fmt.Errorf("generation %d, before it was %d", object.Generation, generation)
				}
				return nil
			}),
		},
		resource.TestStep{Config: acctest.WorkConfig("mw-objects", asObjects)},
		// Edited outside: the plan says what is set back.
		resource.TestStep{
			PreConfig: func() {
				acctest.Someone(t).Patch(&workv1.ManifestWork{}, "mw-objects", "web", `{"spec":{"workload":{"manifests":[{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop","labels":{"by":"hand"}}}]}}}`)
			},
			Config: acctest.WorkConfig("mw-objects", asObjects),
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
				plancheck.ExpectResourceAction(acctest.WorkAddress, plancheck.ResourceActionUpdate),
				prior{"objects", `"by":"hand"`},
				plancheck.ExpectKnownValue(acctest.WorkAddress, tfjsonpath.New("fields"), knownvalue.MapSizeExact(0)),
			}},
			Check: onHub(t, "mw-objects", contains(`"kind":"Deployment"`)),
		},
		resource.TestStep{
			ResourceName: acctest.WorkAddress, ImportState: true, ImportStateKind: resource.ImportBlockWithID, ImportStateId: "mw-objects/web",
			Config: acctest.WorkConfig("mw-objects", asObjects),
		},
		// A text in place of a number is a change.
		resource.TestStep{
			Config:           acctest.WorkConfig("mw-objects", strings.Replace(asObjects, "replicas = 1", `replicas = "1"`, 1)+"\n  field_validation = \"Ignore\""),
			ConfigPlanChecks: expect(plancheck.ResourceActionUpdate),
			Check:            onHub(t, "mw-objects", contains(`"replicas":"1"`)),
		},
	)
}

// prior checks what the state says in an attribute before the plan's changes, those made
// outside included.
type prior struct{ attribute, want string }

func (c prior) CheckPlan(_ context.Context, req plancheck.CheckPlanRequest, resp *plancheck.CheckPlanResponse) {
	for _, change := range req.Plan.ResourceChanges {
		if change.Address != acctest.WorkAddress {
			continue
		}
		before, _ := change.Change.Before.(map[string]any)
		text, err := json.Marshal(before[c.attribute])
		if err != nil || !strings.Contains(string(text), c.want) {
			resp.Error = fmt.Errorf("%s was %s, want it to have %s: %w", c.attribute, text, c.want, err)
		}
	}
}

// Several inputs make one work, in an order that does not depend on them.
func TestAccManifestWorkOfAllInputs(t *testing.T) {
	config := func(answer string) string {
		return acctest.WorkConfig("mw-mixed", acctest.AsYAML+fmt.Sprintf(`
  objects      = [{ apiVersion = "v1", kind = "ConfigMap", metadata = { name = "more", namespace = "shop" }, data = { answer = %q } }]
  manifests_wo = [jsonencode({ %s, stringData = { password = "hunter2" } })]
  manifests_wo_version = 1`, answer, shopSecret))
	}
	acctest.Run(t,
		resource.TestStep{
			Config: config("1"),
			Check: onHub(t, "mw-mixed", func(object *workv1.ManifestWork) error {
				for i, want := range []string{`"settings"`, `"kind":"Namespace"`, `"more"`, `"hunter2"`} {
					if raw := string(object.Spec.Workload.Manifests[i].Raw); !strings.Contains(raw, want) {
						return fmt.Errorf("manifest %d is %s, without %s", i, raw, want)
					}
				}
				return nil
			}),
		},
		resource.TestStep{
			PreConfig: func() {
				o, object := acctest.Someone(t), &workv1.ManifestWork{}
				o.Get(object, "mw-mixed", "web")
				object.Spec.Workload.Manifests[2].Raw = []byte(strings.Replace(string(object.Spec.Workload.Manifests[2].Raw), `"answer":"1"`, `"answer":"0"`, 1))
				patch, err := json.Marshal(map[string]any{"spec": map[string]any{"workload": object.Spec.Workload}})
				if err != nil {
					t.Fatal(err)
				}
				o.Patch(&workv1.ManifestWork{}, "mw-mixed", "web", string(patch))
			},
			Config: config("1"),
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
				plancheck.ExpectResourceAction(acctest.WorkAddress, plancheck.ResourceActionUpdate),
				prior{"objects", `"answer":"0"`},
				prior{"fields", `"data.answer":"42"`},
				withoutSecret("hunter2"),
			}},
			Check: onHub(t, "mw-mixed", contains(`"answer":"1"`, `"answer":"42"`, "hunter2")),
		},
	)
}

// withoutSecret checks that neither plan nor prior state has a text.
type withoutSecret string

func (secret withoutSecret) CheckPlan(_ context.Context, req plancheck.CheckPlanRequest, resp *plancheck.CheckPlanResponse) {
	resp.Error = secret.in(map[string]any{"planned": req.Plan.PlannedValues, "changes": req.Plan.ResourceChanges, "prior": req.Plan.PriorState, "drift": req.Plan.ResourceDrift})
}

func (secret withoutSecret) CheckState(_ context.Context, req statecheck.CheckStateRequest, resp *statecheck.CheckStateResponse) {
	resp.Error = secret.in(req.State)
}

func (secret withoutSecret) in(value any) error {
	text, err := json.Marshal(value)
	if err == nil && strings.Contains(string(text), string(secret)) {
		err = fmt.Errorf("%s is in %s", string(secret), text)
	}
	return err
}

// What is unknown while planning fails nothing. It makes fields unknown where they list it.
func TestAccManifestWorkOfUnknownValues(t *testing.T) {
	config := func(cluster, body string) string {
		return "resource \"terraform_data\" \"later\" {\n  input = \"later\"\n}\n" + acctest.WorkConfig(cluster, body)
	}
	for cluster, body := range map[string]string{
		"mw-unknown-text":   `manifests = [yamlencode({ apiVersion = "v1", kind = "ConfigMap", metadata = { name = "x", namespace = "shop" }, data = { a = terraform_data.later.output } })]`,
		"mw-unknown-value":  `objects = [{ apiVersion = "v1", kind = "ConfigMap", metadata = { name = "x", namespace = "shop" }, data = { a = terraform_data.later.output } }]`,
		"mw-unknown-object": `objects = [{ apiVersion = "v1", kind = "ConfigMap", metadata = { name = "x", namespace = "shop" }, data = { a = "later" } }, terraform_data.later.output == "" ? null : { apiVersion = "v1", kind = "Namespace", metadata = { name = "x" } }]`,
		"mw-unknown-list":   `objects = [for x in range(length(terraform_data.later.output)) : { apiVersion = "v1", kind = "ConfigMap", metadata = { name = "x${x == 0 ? "" : x}", namespace = "shop" }, data = { a = "later" } }]`,
	} {
		t.Run(cluster, func(t *testing.T) {
			acctest.Run(t, resource.TestStep{
				Config: config(cluster, body),
				ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
					plancheck.ExpectUnknownValue(acctest.WorkAddress, tfjsonpath.New("generation")),
				}},
				Check: onHub(t, cluster, contains(`"a":"later"`)),
			})
		})
	}
}

// A plan shows the values that change, object by object, and of Secrets and sensitive
// fields that they do. What is in objects is shown there alone.
func TestAccManifestWorkFields(t *testing.T) {
	config := func(answer, password string) string {
		return acctest.WorkConfig("mw-fields", fmt.Sprintf(`
  objects = [
    { apiVersion = "v1", kind = "ConfigMap", metadata = { name = "shown", namespace = "shop" }, data = { hidden = sensitive("topsecret99") } },
  ]
  manifests = [
    yamlencode({ apiVersion = "v1", kind = "ConfigMap", metadata = { name = "settings", namespace = "shop" }, data = { answer = %q, pin = "named77" } }),
    yamlencode({ %s, stringData = { password = %q, user = "root" } }),
  ]
  sensitive_fields = ["data.pin"]`, answer, shopSecret, password))
	}
	const secret = "v1/Secret shop/login"
	acctest.Run(t,
		resource.TestStep{
			Config: config("1", "hunter2"),
			ConfigStateChecks: []statecheck.StateCheck{
				has(field("v1/ConfigMap shop/settings", "data.answer"), "1"),
				has(field("v1/ConfigMap shop/settings", "data.pin"), "(sensitive, version 1)"),
				statecheck.ExpectKnownValue(acctest.WorkAddress, tfjsonpath.New("fields"), knownvalue.MapSizeExact(2)),
				has(field(secret, "stringData.password"), "(sensitive, version 1)"),
			},
		},
		resource.TestStep{
			Config: config("2", "hunter2"),
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
				plans(field("v1/ConfigMap shop/settings", "data.answer"), "2"),
				plans(field(secret, "stringData.password"), "(sensitive, version 1)"),
				plancheck.ExpectKnownValue(acctest.WorkAddress, tfjsonpath.New("conditions"), knownvalue.ListSizeExact(0)),
				plancheck.ExpectSensitiveValue(acctest.WorkAddress, tfjsonpath.New("manifests")),
			}},
		},
		resource.TestStep{
			Config: config("2", "hunter3"),
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
				plans(field(secret, "stringData.password"), "(sensitive, version 2)"),
				plans(field(secret, "stringData.user"), "(sensitive, version 1)"),
			}},
		},
		resource.TestStep{
			Config: config("2", "hunter2"),
			ConfigStateChecks: []statecheck.StateCheck{
				has(field(secret, "stringData.password"), "(sensitive, version 3)"),
			},
		},
	)
}

func TestAccManifestWorkWriteOnly(t *testing.T) {
	const secret = "v1/Secret shop/login"
	config := func(password, more string) string {
		return fmt.Sprintf("variable \"password\" {\n  default   = %q\n  ephemeral = true\n}\n", password) +
			acctest.WorkConfig("mw-secret", fmt.Sprintf(`
  objects      = [{ apiVersion = "v1", kind = "Namespace", metadata = { name = "shop" } }]
  manifests_wo = [yamlencode({ %s, stringData = { password = var.password } })]
%s`, shopSecret, more))
	}
	clean := []statecheck.StateCheck{withoutSecret("hunter"), statecheck.ExpectKnownValue(acctest.WorkAddress, tfjsonpath.New("manifests_wo"), knownvalue.Null())}
	acctest.Run(t,
		resource.TestStep{
			Config:            config("hunter1", "manifests_wo_version = 1"),
			Check:             onHub(t, "mw-secret", contains("hunter1")),
			ConfigStateChecks: append(clean, has(field(secret, "(write-only)"), "(sensitive, version 1)")),
			ConfigPlanChecks:  resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{withoutSecret("hunter")}},
		},
		// Without another version a change is not noticed...
		resource.TestStep{Config: config("hunter2", "manifests_wo_version = 1"), ConfigPlanChecks: expect(plancheck.ResourceActionNoop)},
		// ...and with one it is.
		resource.TestStep{
			Config:            config("hunter3", "manifests_wo_version = 2"),
			Check:             onHub(t, "mw-secret", contains("hunter3")),
			ConfigPlanChecks:  expect(plancheck.ResourceActionUpdate),
			ConfigStateChecks: append(clean, has(field(secret, "(write-only)"), "(sensitive, version 2)")),
		},
		// Whatever else changes, the work stays whole.
		resource.TestStep{
			Config:            config("hunter4", "manifests_wo_version = 2\n  labels = { a = \"b\" }"),
			Check:             onHub(t, "mw-secret", contains("hunter4", `"Namespace"`)),
			ConfigStateChecks: clean,
		},
		// Somebody has taken the note off the work: the state knows it too.
		resource.TestStep{
			PreConfig: func() {
				acctest.Someone(t).Patch(&workv1.ManifestWork{}, "mw-secret", "web", `{"metadata":{"annotations":{"`+work.WriteOnlyAnnotation+`":null}}}`)
			},
			Config:            config("hunter4", "manifests_wo_version = 2\n  labels = { a = \"b\" }"),
			ConfigPlanChecks:  resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectResourceAction(acctest.WorkAddress, plancheck.ResourceActionNoop), withoutSecret("hunter")}},
			ConfigStateChecks: clean,
		},
		// Somebody has taken it out.
		resource.TestStep{
			PreConfig: func() {
				acctest.Someone(t).Patch(&workv1.ManifestWork{}, "mw-secret", "web", `{"spec":{"workload":{"manifests":[{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop"}}]}}}`)
			},
			Config:            config("hunter5", "manifests_wo_version = 2\n  labels = { a = \"b\" }"),
			Check:             onHub(t, "mw-secret", contains("hunter5")),
			ConfigPlanChecks:  expect(plancheck.ResourceActionUpdate),
			ConfigStateChecks: clean,
		},
		resource.TestStep{Config: config("hunter5", ""), ConfigStateChecks: append(clean, has(field(secret, "(write-only)"), "(sensitive)"))},
		// An import knows what it must not read, from the work.
		resource.TestStep{
			ResourceName: acctest.WorkAddress, ImportState: true, ImportStateKind: resource.ImportBlockWithID, ImportStateId: "mw-secret/web",
			Config: config("hunter5", ""), ImportPlanChecks: resource.ImportPlanChecks{PreApply: []plancheck.PlanCheck{
				withoutSecret("hunter"), plancheck.ExpectResourceAction(acctest.WorkAddress, plancheck.ResourceActionNoop),
			}},
		},
		resource.TestStep{
			Config: config("hunter5", "manifests_wo_version = 1") + "data \"muster_manifest_work\" \"test\" {\n  managed_cluster = \"mw-secret\"\n  name = muster_manifest_work.test.name\n}\n",
			ConfigStateChecks: []statecheck.StateCheck{
				withoutSecret("hunter"),
				statecheck.ExpectKnownValue("data.muster_manifest_work.test", tfjsonpath.New("manifests"), knownvalue.ListSizeExact(1)),
			},
		},
		// The work has nothing else.
		resource.TestStep{
			Config: strings.Replace(config("hunter6", "manifests_wo_version = 3"), "  objects  ", "  # ", 1),
			Check: onHub(t, "mw-secret", func(object *workv1.ManifestWork) error {
				if len(object.Spec.Workload.Manifests) != 1 {
					return fmt.Errorf("got %d manifests", len(object.Spec.Workload.Manifests))
				}
				return contains("hunter6")(object)
			}),
			ConfigStateChecks: clean,
		},
		// And now it may be read.
		resource.TestStep{
			Config: acctest.WorkConfig("mw-secret", fmt.Sprintf("  manifests = [yamlencode({ %s, stringData = { password = \"public\" } })]", shopSecret)),
			Check: onHub(t, "mw-secret", func(object *workv1.ManifestWork) error {
				if note, ok := object.Annotations[work.WriteOnlyAnnotation]; ok {
					return fmt.Errorf("the work still says that it has the write-only manifests %s", note)
				}
				return nil
			}),
			ConfigStateChecks: []statecheck.StateCheck{has(field(secret, "stringData.password"), "(sensitive, version 1)")},
		},
	)
}
