package connection

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	providerschema "github.com/hashicorp/terraform-plugin-framework/provider/schema"
	resourceschema "github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
)

// ProviderAttributes are those of the provider block, which the framework takes as it
// takes those of a resource. Check tells how they go together.
func ProviderAttributes() map[string]providerschema.Attribute {
	attributes := map[string]providerschema.Attribute{}
	for name, a := range attributesOf(settings(), true) {
		attributes[name] = a
	}
	return attributes
}

// ResourceAttribute is the same as one attribute of a resource, and checks how its
// attributes go together.
func ResourceAttribute(description string) resourceschema.SingleNestedAttribute {
	return resourceschema.SingleNestedAttribute{
		MarkdownDescription: description,
		Required:            true,
		Attributes:          attributesOf(settings(), false),
		Validators:          []validator.Object{togetherValidator{"how to reach one API server"}},
	}
}

// attributesOf are the settings as attributes, with the environment variables in their
// descriptions or without.
func attributesOf(settings []setting, environment bool) map[string]resourceschema.Attribute {
	attributes := map[string]resourceschema.Attribute{}
	for _, s := range settings {
		description, optional := s.description, !s.required
		if environment {
			description += s.environment()
		}
		switch s.kind {
		case flag:
			attributes[s.name] = resourceschema.BoolAttribute{MarkdownDescription: description, Optional: optional}
		case texts:
			attributes[s.name] = resourceschema.ListAttribute{
				MarkdownDescription: description, Optional: optional,
				ElementType: types.StringType, Validators: s.listValidators(),
			}
		case textMap:
			attributes[s.name] = resourceschema.MapAttribute{
				MarkdownDescription: description, Optional: optional,
				ElementType: types.StringType,
			}
		case textsMap:
			attributes[s.name] = resourceschema.MapAttribute{
				MarkdownDescription: description, Optional: optional,
				ElementType: types.ListType{ElemType: types.StringType},
			}
		case object:
			attributes[s.name] = resourceschema.SingleNestedAttribute{
				MarkdownDescription: description, Optional: optional,
				Attributes: attributesOf(s.nested, environment),
			}
		default:
			attributes[s.name] = resourceschema.StringAttribute{
				MarkdownDescription: description, Optional: optional,
				Required: s.required, Sensitive: s.sensitive, Validators: s.validators,
			}
		}
	}
	return attributes
}

// listValidators keep a list that names the server from being empty.
func (s setting) listValidators() []validator.List {
	if s.part != server {
		return nil
	}
	return []validator.List{listvalidator.SizeAtLeast(1), listvalidator.ValueStringsAre(notEmpty()),
		listvalidator.NoNullValues()}
}

// togetherValidator checks how the attributes of a resource's connection go together.
type togetherValidator struct{ attribute.Described }

// ValidateObject implements validator.Object.
func (togetherValidator) ValidateObject(
	ctx context.Context, req validator.ObjectRequest, resp *validator.ObjectResponse,
) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	var m Model
	if diags := req.ConfigValue.As(ctx, &m, basetypes.ObjectAsOptions{}); diags.HasError() {
		resp.Diagnostics.Append(diags...)
		return
	}
	for _, problem := range m.problems(true) {
		resp.Diagnostics.AddAttributeError(req.Path.AtName(problem.attribute), problem.summary, problem.detail)
	}
}
