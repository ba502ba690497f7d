package provider

import (
	"slices"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

func TestFeedbackOfEveryTypeIsText(t *testing.T) {
	integer, text, truth, raw := int64(-3), "x", false, `{"a":[1]}`
	for want, value := range map[string]workv1.FieldValue{
		"-3":        {Type: workv1.ValueTypeInteger, Integer: &integer},
		"x":         {Type: workv1.ValueTypeString, String: &text},
		"false":     {Type: workv1.ValueTypeBoolean, Boolean: &truth},
		`{"a":[1]}`: {Type: workv1.ValueTypeJSONRaw, JSONRaw: &raw},
		"":          {Type: workv1.ValueTypeString},
	} {
		if got := feedbackText(value); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestFeedbackOfSecretsIsNotTold(t *testing.T) {
	password := "hunter2"
	told := func(group, kind, name string) workv1.ManifestCondition {
		return workv1.ManifestCondition{
			ResourceMeta:    workv1.ManifestResourceMeta{Group: group, Version: "v1", Kind: kind, Namespace: "shop", Name: name},
			StatusFeedbacks: workv1.StatusFeedbackResult{Values: []workv1.FeedbackValue{{Name: "v", Value: workv1.FieldValue{Type: workv1.ValueTypeString, String: &password}}}},
		}
	}
	object := &workv1.ManifestWork{}
	object.Annotations = map[string]string{work.WriteOnlyAnnotation: `["example.com/v1/Database shop/closed"]`}
	object.Status.ResourceStatus.Manifests = []workv1.ManifestCondition{
		told("", "Secret", "db"), told("example.com", "Database", "closed"), told("example.com", "Database", "open"), told("example.com", "Secret", "no-secret"),
	}
	var got []string
	for _, element := range feedbackValue(object).Elements() {
		value := element.(types.Object).Attributes()
		got = append(got, value["name"].(types.String).ValueString()+" "+stringMap(value["values"].(types.Map))["v"])
	}
	want := []string{"db (sensitive)", "closed (sensitive)", "open hunter2", "no-secret hunter2"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// reportWork plays the agent of a work with the config map settings and a
// namespace.
func reportWork(t *testing.T, cluster string, answer string) {
	t.Helper()
	if err := reportOnce(someone(t), cluster, answer); err != nil {
		t.Fatal(err)
	}
}

// reportOnce is reportWork for a work that may be yet to come. It is fit for a
// goroutine beside the test's.
func reportOnce(o *outsider, cluster string, answer string) error {
	ctx, cancel := o.context()
	defer cancel()
	object := &workv1.ManifestWork{}
	if err := o.client.Wait(ctx, object, cluster, "web", func(exists bool) (bool, error) { return exists, nil }); err != nil {
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
	return o.client.UpdateSubresource(ctx, object, "status", outsiderManager)
}

// What the agent reports comes with the next refresh, and is no reason to plan
// anything.
func TestAccManifestWorkReports(t *testing.T) {
	config := workConfig("mw-reports", asYAML)
	reported := func(answer string) []statecheck.StateCheck {
		return []statecheck.StateCheck{
			statecheck.ExpectKnownValue(workAddress, tfjsonpath.New("conditions"), knownvalue.ListExact([]knownvalue.Check{knownvalue.ObjectExact(map[string]knownvalue.Check{
				"type": knownvalue.StringExact("Applied"), "status": knownvalue.StringExact("True"),
				"reason": knownvalue.StringExact("Test"), "message": knownvalue.StringExact("by the test"),
			})})),
			statecheck.ExpectKnownValue(workAddress, tfjsonpath.New("feedback"), knownvalue.ListExact([]knownvalue.Check{knownvalue.ObjectExact(map[string]knownvalue.Check{
				"group": knownvalue.StringExact(""), "version": knownvalue.StringExact("v1"), "kind": knownvalue.StringExact("ConfigMap"),
				"namespace": knownvalue.StringExact("shop"), "name": knownvalue.StringExact("settings"),
				"values": knownvalue.MapExact(map[string]knownvalue.Check{"answer": knownvalue.StringExact(answer)}),
			})})),
		}
	}
	accTest(t,
		resource.TestStep{Config: config, ConfigStateChecks: []statecheck.StateCheck{
			statecheck.ExpectKnownValue(workAddress, tfjsonpath.New("feedback"), knownvalue.ListSizeExact(0)),
		}},
		resource.TestStep{
			PreConfig:         func() { reportWork(t, "mw-reports", "42") },
			Config:            config,
			ConfigPlanChecks:  expect(plancheck.ResourceActionNoop),
			ConfigStateChecks: reported("42"),
		},
		// A change of the work leaves open what will be reported.
		resource.TestStep{
			PreConfig: func() { reportWork(t, "mw-reports", "43") },
			Config:    config + "\noutput \"answer\" {\n  value = muster_manifest_work.test.feedback\n}\n",
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
				plancheck.ExpectKnownOutputValue("answer", knownvalue.ListSizeExact(1)),
			}},
			ConfigStateChecks: reported("43"),
		},
		resource.TestStep{
			Config: workConfig("mw-reports", asYAML+"\n  labels = { a = \"b\" }"),
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
				plancheck.ExpectUnknownValue(workAddress, tfjsonpath.New("feedback")),
				plancheck.ExpectUnknownValue(workAddress, tfjsonpath.New("conditions")),
				plancheck.ExpectKnownValue(workAddress, tfjsonpath.New("fields").AtMapKey("v1/ConfigMap shop/settings").AtMapKey("data.answer"), knownvalue.StringExact("42")),
			}},
			ConfigStateChecks: reported("43"),
		},
	)
}
