package attribute

import (
	"time"

	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	resourceschema "github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ConditionModel is one condition of an object.
type ConditionModel struct {
	Type               types.String `tfsdk:"type"`
	Status             types.String `tfsdk:"status"`
	Reason             types.String `tfsdk:"reason"`
	Message            types.String `tfsdk:"message"`
	LastTransitionTime types.String `tfsdk:"last_transition_time"`
}

// ConditionsAttribute is the conditions of an object, in a data source.
func ConditionsAttribute(description string) schema.Attribute {
	return ObservedAttributes(Table[any]{ReportedConditions[any](description, nil)}.Attributes())["conditions"]
}

// ConditionModels are conditions as ConditionsAttribute has them; not nil.
func ConditionModels(conditions []metav1.Condition) []ConditionModel {
	models := []ConditionModel{}
	for _, c := range conditions {
		models = append(models, ConditionModel{
			Type:               types.StringValue(c.Type),
			Status:             types.StringValue(string(c.Status)),
			Reason:             types.StringValue(c.Reason),
			Message:            types.StringValue(c.Message),
			LastTransitionTime: types.StringValue(c.LastTransitionTime.UTC().Format(time.RFC3339)),
		})
	}
	return models
}

// TextAttributeOfData is a text that a data source reads.
func TextAttributeOfData(description string) schema.StringAttribute {
	return schema.StringAttribute{MarkdownDescription: description, Computed: true}
}

// InputAttributes are a resource's attributes as those of a data source that
// takes the same. The reader applies defaults. A kind of attribute
// that is not listed here is left out, which the test of the schemas notices.
func InputAttributes(attributes map[string]resourceschema.Attribute) map[string]schema.Attribute {
	input := map[string]schema.Attribute{}
	for name, attribute := range attributes {
		description, required, optional := attribute.GetMarkdownDescription(), attribute.IsRequired(), attribute.IsOptional()
		switch a := attribute.(type) {
		case resourceschema.StringAttribute:
			input[name] = schema.StringAttribute{MarkdownDescription: description, Required: required, Optional: optional, Validators: a.Validators}
		case resourceschema.Int64Attribute:
			input[name] = schema.Int64Attribute{MarkdownDescription: description, Required: required, Optional: optional, Validators: a.Validators}
		case resourceschema.ListAttribute:
			input[name] = schema.ListAttribute{MarkdownDescription: description, Required: required, Optional: optional, Validators: a.Validators, ElementType: a.ElementType}
		case resourceschema.SetAttribute:
			input[name] = schema.SetAttribute{MarkdownDescription: description, Required: required, Optional: optional, Validators: a.Validators, ElementType: a.ElementType}
		case resourceschema.MapAttribute:
			input[name] = schema.MapAttribute{MarkdownDescription: description, Required: required, Optional: optional, Validators: a.Validators, ElementType: a.ElementType}
		case resourceschema.SingleNestedAttribute:
			input[name] = schema.SingleNestedAttribute{MarkdownDescription: description, Required: required, Optional: optional, Validators: a.Validators, Attributes: InputAttributes(a.Attributes)}
		case resourceschema.ListNestedAttribute:
			input[name] = schema.ListNestedAttribute{
				MarkdownDescription: description, Required: required, Optional: optional, Validators: a.Validators,
				NestedObject: schema.NestedAttributeObject{Attributes: InputAttributes(a.NestedObject.Attributes), Validators: a.NestedObject.Validators},
			}
		}
	}
	return input
}

// ObservedAttributes are a resource's attributes as a data source has them: only
// to be read. A kind of attribute that is not listed here is left out, which the
// test of the schemas notices.
func ObservedAttributes(attributes map[string]resourceschema.Attribute) map[string]schema.Attribute {
	observed := map[string]schema.Attribute{}
	for name, attribute := range attributes {
		description, sensitive := attribute.GetMarkdownDescription(), attribute.IsSensitive()
		switch a := attribute.(type) {
		case resourceschema.StringAttribute:
			observed[name] = schema.StringAttribute{MarkdownDescription: description, Sensitive: sensitive, Computed: true}
		case resourceschema.BoolAttribute:
			observed[name] = schema.BoolAttribute{MarkdownDescription: description, Sensitive: sensitive, Computed: true}
		case resourceschema.Int64Attribute:
			observed[name] = schema.Int64Attribute{MarkdownDescription: description, Sensitive: sensitive, Computed: true}
		case resourceschema.ListAttribute:
			observed[name] = schema.ListAttribute{MarkdownDescription: description, Sensitive: sensitive, Computed: true, ElementType: a.ElementType}
		case resourceschema.SetAttribute:
			observed[name] = schema.SetAttribute{MarkdownDescription: description, Sensitive: sensitive, Computed: true, ElementType: a.ElementType}
		case resourceschema.MapAttribute:
			observed[name] = schema.MapAttribute{MarkdownDescription: description, Sensitive: sensitive, Computed: true, ElementType: a.ElementType}
		case resourceschema.SingleNestedAttribute:
			observed[name] = schema.SingleNestedAttribute{MarkdownDescription: description, Sensitive: sensitive, Computed: true, Attributes: ObservedAttributes(a.Attributes)}
		case resourceschema.ListNestedAttribute:
			observed[name] = schema.ListNestedAttribute{
				MarkdownDescription: description, Sensitive: sensitive, Computed: true,
				NestedObject: schema.NestedAttributeObject{Attributes: ObservedAttributes(a.NestedObject.Attributes)},
			}
		case resourceschema.SetNestedAttribute:
			observed[name] = schema.SetNestedAttribute{
				MarkdownDescription: description, Sensitive: sensitive, Computed: true,
				NestedObject: schema.NestedAttributeObject{Attributes: ObservedAttributes(a.NestedObject.Attributes)},
			}
		}
	}
	return observed
}
