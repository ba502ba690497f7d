package manifestwork

import (
	"strconv"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// What the agent reports of a work, as attributes. Times are left out: they would
// make a difference where nothing has happened.

func workConditionsAttribute() schema.ListNestedAttribute {
	return schema.ListNestedAttribute{
		MarkdownDescription: "Conditions of the work as last read. They keep changing after an apply; `wait` waits " +
			"for some of them.",
		Computed: true,
		NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
			"type":    attribute.TextAttribute("Type of the condition, such as `Applied`."),
			"status":  attribute.TextAttribute("`True`, `False` or `Unknown`."),
			"reason":  attribute.TextAttribute("Reason in one word."),
			"message": attribute.TextAttribute("Reason in a sentence."),
		}},
	}
}

func feedbackAttribute() schema.ListNestedAttribute {
	return schema.ListNestedAttribute{
		MarkdownDescription: "What the agent reports of the live objects, by `feedback_rules`, as last read. Objects " +
			"without reported values are not listed. " +
			"Values of Secrets, and of objects from `manifests_wo`, read `(sensitive)`: they are never in the state.",
		Computed: true,
		NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
			"group":     attribute.TextAttribute("API group of the object; empty for the core group."),
			"version":   attribute.TextAttribute("Version of its API."),
			"kind":      attribute.TextAttribute("Its kind."),
			"namespace": attribute.TextAttribute("Its namespace; empty if its kind has none."),
			"name":      attribute.TextAttribute("Its name."),
			"values": schema.MapAttribute{
				MarkdownDescription: "The reported values as text, by the names that the rules give them.",
				Computed:            true,
				ElementType:         types.StringType,
			},
		}},
	}
}

// WorkConditionType is the type of a condition in a state.
func WorkConditionType() types.ObjectType {
	return types.ObjectType{AttrTypes: map[string]attr.Type{
		"type": types.StringType, "status": types.StringType, "reason": types.StringType, "message": types.StringType,
	}}
}

func feedbackType() types.ObjectType {
	return types.ObjectType{AttrTypes: map[string]attr.Type{
		"group": types.StringType, "version": types.StringType, "kind": types.StringType, "namespace": types.StringType, "name": types.StringType,
		"values": types.MapType{ElemType: types.StringType},
	}}
}

// WorkConditionsValue are conditions without their times. hide, which may be nil, hides
// in their messages what is not to be shown.
func WorkConditionsValue(conditions []metav1.Condition, hide func(string) string) types.List {
	list := []attr.Value{}
	for _, c := range conditions {
		if hide != nil {
			c.Message = hide(c.Message)
		}
		list = append(list, types.ObjectValueMust(WorkConditionType().AttrTypes, map[string]attr.Value{
			"type": types.StringValue(c.Type), "status": types.StringValue(string(c.Status)),
			"reason": types.StringValue(c.Reason), "message": types.StringValue(c.Message),
		}))
	}
	return types.ListValueMust(WorkConditionType(), list)
}

func feedbackValue(object *workv1.ManifestWork, hide func(string) string) types.List {
	list := []attr.Value{}
	for _, m := range object.Status.ResourceStatus.Manifests {
		values := feedbackTexts(m.StatusFeedbacks)
		if len(values) == 0 {
			continue
		}
		secret := secretive(object, m.ResourceMeta)
		for name := range values {
			if values[name] = hide(values[name]); secret {
				values[name] = sensitiveFeedback
			}
		}
		list = append(list, types.ObjectValueMust(feedbackType().AttrTypes, map[string]attr.Value{
			"group": types.StringValue(m.ResourceMeta.Group), "version": types.StringValue(m.ResourceMeta.Version), "kind": types.StringValue(m.ResourceMeta.Kind),
			"namespace": types.StringValue(m.ResourceMeta.Namespace), "name": types.StringValue(m.ResourceMeta.Name),
			"values": attribute.StringMapValue(values),
		}))
	}
	return types.ListValueMust(feedbackType(), list)
}

// sensitiveFeedback stands for a value that must not get into the state.
const sensitiveFeedback = "(sensitive)"

// secretive reports whether what is reported of one of the work's objects may be a
// secret: of every Secret, and of what was given write-only.
func secretive(object *workv1.ManifestWork, reported workv1.ManifestResourceMeta) bool {
	if reported.Group == "" && (reported.Kind == "Secret" || reported.Resource == "secrets") {
		return true
	}
	return workload.IsWriteOnly(object.Annotations, reported)
}

func feedbackTexts(feedback workv1.StatusFeedbackResult) map[string]string {
	values := map[string]string{}
	for _, value := range feedback.Values {
		values[value.Name] = feedbackText(value.Value)
	}
	return values
}

// feedbackText is a reported value of any type as text. One without a value is
// empty.
func feedbackText(value workv1.FieldValue) string {
	switch {
	case value.Integer != nil:
		return strconv.FormatInt(*value.Integer, 10)
	case value.String != nil:
		return *value.String
	case value.Boolean != nil:
		return strconv.FormatBool(*value.Boolean)
	case value.JSONRaw != nil:
		return *value.JSONRaw
	default:
		return ""
	}
}
