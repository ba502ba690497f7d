package attribute

import (
	"context"
	"fmt"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LabelSelectorModel selects by labels.
type LabelSelectorModel struct {
	MatchLabels      types.Map          `tfsdk:"match_labels"`
	MatchExpressions []RequirementModel `tfsdk:"match_expressions"`
}

// RequirementModel is one condition on a label or claim.
type RequirementModel struct {
	Key      types.String   `tfsdk:"key"`
	Operator types.String   `tfsdk:"operator"`
	Values   []types.String `tfsdk:"values"`
}

// LabelSelectorAttribute is a LabelSelectorModel.
func LabelSelectorAttribute(description string) schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{
		MarkdownDescription: description,
		Optional:            true,
		Attributes: map[string]schema.Attribute{
			"match_labels": schema.MapAttribute{
				MarkdownDescription: "Labels that all have to match.",
				Optional:            true,
				ElementType:         types.StringType,
				Validators:          []validator.Map{ValidLabels(nil)},
			},
			"match_expressions": MatchExpressionsAttribute("Further conditions on labels; all of them have to match."),
		},
	}
}

// MatchExpressionsAttribute is a list of RequirementModel.
func MatchExpressionsAttribute(description string) schema.ListNestedAttribute {
	return schema.ListNestedAttribute{
		MarkdownDescription: description,
		Optional:            true,
		Validators: []validator.List{requirementsValidator{"operators In and NotIn with values, Exists and " +
			"DoesNotExist without"}},
		NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
			"key": schema.StringAttribute{
				MarkdownDescription: "Key to look at.",
				Required:            true,
				Validators:          []validator.String{ValidKey("selector key")},
			},
			"operator": schema.StringAttribute{
				MarkdownDescription: "`In`, `NotIn`, `Exists` or `DoesNotExist`. `NotIn` also matches when the key " +
					"is missing.",
				Required: true,
				Validators: []validator.String{stringvalidator.OneOf(
					string(metav1.LabelSelectorOpIn), string(metav1.LabelSelectorOpNotIn),
					string(metav1.LabelSelectorOpExists), string(metav1.LabelSelectorOpDoesNotExist))},
			},
			"values": schema.SetAttribute{
				MarkdownDescription: "Values for `In` and `NotIn`.",
				Optional:            true,
				ElementType:         types.StringType,
			},
		}},
	}
}

// requirementsValidator checks that operator and values go together.
type requirementsValidator struct{ Described }

func (requirementsValidator) ValidateList(_ context.Context, req validator.ListRequest, resp *validator.ListResponse) {
	for i, element := range req.ConfigValue.Elements() {
		object, ok := element.(types.Object)
		if !ok || object.IsUnknown() {
			continue
		}
		operator, _ := object.Attributes()["operator"].(types.String)
		values, _ := object.Attributes()["values"].(types.Set)
		if operator.IsNull() || operator.IsUnknown() || values.IsUnknown() {
			continue
		}
		count := len(values.Elements())
		switch metav1.LabelSelectorOperator(operator.ValueString()) {
		case metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn:
			if count == 0 {
				resp.Diagnostics.AddAttributeError(req.Path.AtListIndex(i).AtName("values"), "Missing values",
					fmt.Sprintf("%s: the operator %s needs values, and there are none. Add values, or use Exists or "+
						"DoesNotExist.", Place(req.Path.AtListIndex(i)), operator.ValueString()))
			}
		case metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist:
			if count > 0 {
				resp.Diagnostics.AddAttributeError(req.Path.AtListIndex(i).AtName("values"), "Needless values",
					fmt.Sprintf("%s: the operator %s takes no values. Remove them, or use In or NotIn.",
						Place(req.Path.AtListIndex(i)), operator.ValueString()))
			}
		}
	}
}

// Selector is the model in the API's terms; empty for nil.
func (m *LabelSelectorModel) Selector() metav1.LabelSelector {
	if m == nil {
		return metav1.LabelSelector{}
	}
	return metav1.LabelSelector{MatchLabels: StringMap(m.MatchLabels),
		MatchExpressions: Requirements(m.MatchExpressions)}
}

// Requirements are models in the API's terms.
func Requirements(models []RequirementModel) []metav1.LabelSelectorRequirement {
	var list []metav1.LabelSelectorRequirement
	for _, m := range models {
		requirement := metav1.LabelSelectorRequirement{Key: m.Key.ValueString(),
			Operator: metav1.LabelSelectorOperator(m.Operator.ValueString())}
		for _, value := range m.Values {
			requirement.Values = append(requirement.Values, value.ValueString())
		}
		slices.Sort(requirement.Values)
		list = append(list, requirement)
	}
	return list
}

// LabelSelectorModelOf is the model of a selector; never nil.
func LabelSelectorModelOf(selector *metav1.LabelSelector) *LabelSelectorModel {
	m := &LabelSelectorModel{MatchLabels: types.MapNull(types.StringType)}
	if selector == nil {
		return m
	}
	if len(selector.MatchLabels) > 0 {
		m.MatchLabels = StringMapValue(selector.MatchLabels)
	}
	m.MatchExpressions = RequirementModels(selector.MatchExpressions)
	return m
}

// RequirementModels is nil when there are none.
func RequirementModels(list []metav1.LabelSelectorRequirement) []RequirementModel {
	var models []RequirementModel
	for _, requirement := range list {
		m := RequirementModel{Key: types.StringValue(requirement.Key),
			Operator: types.StringValue(string(requirement.Operator))}
		for _, value := range requirement.Values {
			m.Values = append(m.Values, types.StringValue(value))
		}
		models = append(models, m)
	}
	return models
}
