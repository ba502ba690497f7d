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
// takes the same. The reader applies defaults.
func InputAttributes(attributes map[string]resourceschema.Attribute) map[string]schema.Attribute {
	return inData(attributes, true)
}

// ObservedAttributes are a resource's attributes as a data source has them: only
// to be read.
func ObservedAttributes(attributes map[string]resourceschema.Attribute) map[string]schema.Attribute {
	return inData(attributes, false)
}

// inData are a resource's attributes in a data source, which takes them, or only has them
// read. A kind of attribute that is not listed here is left out, which the test of the
// schemas notices.
func inData(attributes map[string]resourceschema.Attribute, takes bool) map[string]schema.Attribute {
	data := map[string]schema.Attribute{}
	for name, of := range attributes {
		text, computed, secret := of.GetMarkdownDescription(), !takes, of.IsSensitive()
		required, optional := takes && of.IsRequired(), takes && of.IsOptional()
		switch a := of.(type) {
		case resourceschema.StringAttribute:
			data[name] = schema.StringAttribute{
				MarkdownDescription: text, Required: required, Optional: optional, Computed: computed, Sensitive: secret,
				Validators: taken(takes, a.Validators),
			}
		case resourceschema.BoolAttribute:
			data[name] = schema.BoolAttribute{
				MarkdownDescription: text, Required: required, Optional: optional, Computed: computed, Sensitive: secret,
				Validators: taken(takes, a.Validators),
			}
		case resourceschema.Int64Attribute:
			data[name] = schema.Int64Attribute{
				MarkdownDescription: text, Required: required, Optional: optional, Computed: computed, Sensitive: secret,
				Validators: taken(takes, a.Validators),
			}
		case resourceschema.ListAttribute:
			data[name] = schema.ListAttribute{
				MarkdownDescription: text, Required: required, Optional: optional, Computed: computed, Sensitive: secret,
				Validators: taken(takes, a.Validators), ElementType: a.ElementType,
			}
		case resourceschema.SetAttribute:
			data[name] = schema.SetAttribute{
				MarkdownDescription: text, Required: required, Optional: optional, Computed: computed, Sensitive: secret,
				Validators: taken(takes, a.Validators), ElementType: a.ElementType,
			}
		case resourceschema.MapAttribute:
			data[name] = schema.MapAttribute{
				MarkdownDescription: text, Required: required, Optional: optional, Computed: computed, Sensitive: secret,
				Validators: taken(takes, a.Validators), ElementType: a.ElementType,
			}
		case resourceschema.SingleNestedAttribute:
			data[name] = schema.SingleNestedAttribute{
				MarkdownDescription: text, Required: required, Optional: optional, Computed: computed, Sensitive: secret,
				Validators: taken(takes, a.Validators), Attributes: inData(a.Attributes, takes),
			}
		case resourceschema.ListNestedAttribute:
			data[name] = schema.ListNestedAttribute{
				MarkdownDescription: text, Required: required, Optional: optional, Computed: computed, Sensitive: secret,
				Validators: taken(takes, a.Validators), NestedObject: schema.NestedAttributeObject{
					Attributes: inData(a.NestedObject.Attributes, takes), Validators: taken(takes,
						a.NestedObject.Validators),
				},
			}
		case resourceschema.SetNestedAttribute:
			data[name] = schema.SetNestedAttribute{
				MarkdownDescription: text, Required: required, Optional: optional, Computed: computed, Sensitive: secret,
				Validators: taken(takes, a.Validators), NestedObject: schema.NestedAttributeObject{
					Attributes: inData(a.NestedObject.Attributes, takes), Validators: taken(takes,
						a.NestedObject.Validators),
				},
			}
		}
	}
	return data
}

// taken are the validators of an attribute that is taken.
func taken[V any](takes bool, validators []V) []V {
	if !takes {
		return nil
	}
	return validators
}
