package manifestwork

import (
	"slices"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
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

func TestFeedbackOfSecretsIsNotReported(t *testing.T) {
	password := "hunter2"
	condition := func(group, kind, name string) workv1.ManifestCondition {
		return workv1.ManifestCondition{
			ResourceMeta:    workv1.ManifestResourceMeta{Group: group, Version: "v1", Kind: kind, Namespace: "shop", Name: name},
			StatusFeedbacks: workv1.StatusFeedbackResult{Values: []workv1.FeedbackValue{{Name: "v", Value: workv1.FieldValue{Type: workv1.ValueTypeString, String: &password}}}},
		}
	}
	object := &workv1.ManifestWork{}
	object.Annotations = map[string]string{work.WriteOnlyAnnotation: `["example.com/v1/Database shop/closed"]`}
	object.Status.ResourceStatus.Manifests = []workv1.ManifestCondition{
		condition("", "Secret", "db"), condition("example.com", "Database", "closed"), condition("example.com", "Database", "open"), condition("example.com", "Secret", "no-secret"),
	}
	var got []string
	feedback := table().Read(masked(object, workload.None()))["feedback"].(types.List)
	for _, element := range feedback.Elements() {
		value := element.(types.Object).Attributes()
		got = append(got, value["name"].(types.String).ValueString()+" "+attribute.StringMap(value["values"].(types.Map))["v"])
	}
	want := []string{"db (sensitive)", "closed (sensitive)", "open hunter2", "no-secret hunter2"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
