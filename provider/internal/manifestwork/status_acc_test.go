package manifestwork_test

import (
	"fmt"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// reportWork plays the agent of a work with the config map settings and a
// namespace.
func reportWork(t *testing.T, cluster string, answer string) {
	t.Helper()
	if err := reportOnce(acctest.Someone(t), cluster, answer); err != nil {
		t.Fatal(err)
	}
}

// reportOnce is reportWork for a work that may be yet to come. It is fit for a
// goroutine beside the test's.
func reportOnce(o *acctest.Outsider, cluster string, answer string) error {
	ctx, cancel := o.Context()
	defer cancel()
	object := &workv1.ManifestWork{}
	if err := o.Client.Wait(ctx, object, cluster, "web", func(exists bool) (bool, error) { return exists, nil }); err != nil {
		return err
	}
	fine := metav1.Condition{Type: "Applied", Status: metav1.ConditionTrue, Reason: "Test", Message: "by the test", LastTransitionTime: metav1.Now(), ObservedGeneration: object.Generation}
	object.Status.Conditions = []metav1.Condition{fine}
	object.Status.ResourceStatus.Manifests = []workv1.ManifestCondition{
		{
			ResourceMeta:    workv1.ManifestResourceMeta{Ordinal: 0, Version: "v1", Kind: "ConfigMap", Resource: "configmaps", Namespace: "shop", Name: "settings"},
			StatusFeedbacks: workv1.StatusFeedbackResult{Values: []workv1.FeedbackValue{{Name: "answer", Value: workv1.FieldValue{Type: workv1.ValueTypeString, String: &answer}}}},
			Conditions:      []metav1.Condition{fine},
		},
		{ResourceMeta: workv1.ManifestResourceMeta{Ordinal: 1, Version: "v1", Kind: "Namespace", Resource: "namespaces", Name: "shop"}, Conditions: []metav1.Condition{fine}},
	}
	return o.Client.UpdateSubresource(ctx, object, "status", acctest.OutsiderManager)
}

// What the agent reports comes with the next refresh, and is no reason to plan
// anything.
func TestAccManifestWorkReports(t *testing.T) {
	config := acctest.WorkConfig("mw-reports", acctest.AsYAML)
	reported := func(answer string) []statecheck.StateCheck {
		return []statecheck.StateCheck{
			statecheck.ExpectKnownValue(acctest.WorkAddress, tfjsonpath.New("conditions"), knownvalue.ListExact([]knownvalue.Check{knownvalue.ObjectExact(map[string]knownvalue.Check{
				"type": knownvalue.StringExact("Applied"), "status": knownvalue.StringExact("True"),
				"reason": knownvalue.StringExact("Test"), "message": knownvalue.StringExact("by the test"),
			})})),
			statecheck.ExpectKnownValue(acctest.WorkAddress, tfjsonpath.New("feedback"), knownvalue.ListExact([]knownvalue.Check{knownvalue.ObjectExact(map[string]knownvalue.Check{
				"group": knownvalue.StringExact(""), "version": knownvalue.StringExact("v1"), "kind": knownvalue.StringExact("ConfigMap"),
				"namespace": knownvalue.StringExact("shop"), "name": knownvalue.StringExact("settings"),
				"values": knownvalue.MapExact(map[string]knownvalue.Check{"answer": knownvalue.StringExact(answer)}),
			})})),
		}
	}
	acctest.Run(t,
		resource.TestStep{Config: config, ConfigStateChecks: []statecheck.StateCheck{
			statecheck.ExpectKnownValue(acctest.WorkAddress, tfjsonpath.New("feedback"), knownvalue.ListSizeExact(0)),
		}},
		resource.TestStep{
			PreConfig:         func() { reportWork(t, "mw-reports", "42") },
			Config:            config,
			ConfigPlanChecks:  expect(plancheck.ResourceActionNoop),
			ConfigStateChecks: reported("42"),
		},
		// Only a change of what the work says leaves open what will be reported.
		resource.TestStep{
			PreConfig: func() { reportWork(t, "mw-reports", "43") },
			Config:    config + "\noutput \"answer\" {\n  value = muster_manifest_work.test.feedback\n}\n",
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
				plancheck.ExpectKnownOutputValue("answer", knownvalue.ListSizeExact(1)),
			}},
			ConfigStateChecks: reported("43"),
		},
		resource.TestStep{
			Config: acctest.WorkConfig("mw-reports", acctest.AsYAML+"\n  labels = { a = \"b\" }"),
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
				plancheck.ExpectResourceAction(acctest.WorkAddress, plancheck.ResourceActionUpdate),
				plancheck.ExpectKnownValue(acctest.WorkAddress, tfjsonpath.New("feedback"), knownvalue.ListSizeExact(1)),
				plancheck.ExpectKnownValue(acctest.WorkAddress, tfjsonpath.New("conditions"), knownvalue.ListSizeExact(1)),
				plancheck.ExpectKnownValue(acctest.WorkAddress, tfjsonpath.New("generation"), knownvalue.Int64Exact(1)),
			}},
			ConfigStateChecks: reported("43"),
		},
		resource.TestStep{
			Config: acctest.WorkConfig("mw-reports", acctest.AsYAML+"\n  delete_option = {}\n  labels = { a = \"b\" }"),
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
				plancheck.ExpectKnownValue(acctest.WorkAddress, tfjsonpath.New("feedback"), knownvalue.ListSizeExact(1)),
				plancheck.ExpectKnownValue(acctest.WorkAddress, tfjsonpath.New("conditions"), knownvalue.ListSizeExact(1)),
				plancheck.ExpectUnknownValue(acctest.WorkAddress, tfjsonpath.New("generation")),
				plancheck.ExpectKnownValue(acctest.WorkAddress, tfjsonpath.New("fields").AtMapKey("v1/ConfigMap shop/settings").AtMapKey("data.answer"), knownvalue.StringExact("42")),
			}},
			ConfigStateChecks: reported("43"),
		},
	)
}

// Options that somebody adds are drift, and the next apply removes them.
func TestAccManifestWorkOptionsAddedOutside(t *testing.T) {
	config := acctest.WorkConfig("mw-added", acctest.AsYAML)
	steps := []resource.TestStep{{Config: config}}
	for _, patch := range []string{
		`{"spec":{"deleteOption":{"propagationPolicy":"Orphan"}}}`,
		`{"spec":{"executor":{"subject":{"type":"ServiceAccount","serviceAccount":{"namespace":"shop","name":"other"}}}}}`,
		`{"spec":{"manifestConfigs":[{"resourceIdentifier":{"resource":"configmaps","name":"settings","namespace":"shop"},"updateStrategy":{"type":"CreateOnly"}}]}}`,
	} {
		steps = append(steps, resource.TestStep{
			PreConfig:        func() { acctest.Someone(t).Patch(&workv1.ManifestWork{}, "mw-added", "web", patch) },
			Config:           config,
			ConfigPlanChecks: expect(plancheck.ResourceActionUpdate),
			Check: onHub(t, "mw-added", func(object *workv1.ManifestWork) error {
				if s := object.Spec; s.DeleteOption != nil || s.Executor != nil || len(s.ManifestConfigs) > 0 {
					return fmt.Errorf("what was added is still there: %+v", s)
				}
				return nil
			}),
		})
	}
	acctest.Run(t, steps...)
}
