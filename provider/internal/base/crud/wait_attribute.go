package crud

import (
	"context"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
)

// WaitAttribute is the attribute wait of a kind.
type WaitAttribute struct {
	// Kind is what the object is called in messages, such as "placement".
	Kind string
	// Until is what is waited for, in the documentation. It defaults to all that is set.
	Until string
	// Lost is what would be destroyed if a wait that fails made a creation fail.
	Lost string
	// Failing is the resource that waits for the same, and whose failure fails the run;
	// empty where there is none.
	Failing string
	// Notes end the documentation.
	Notes string
	// Options are what there is to wait for.
	Options WaitOptions
}

// Schema is the attribute in the kind's schema.
func (w WaitAttribute) Schema() schema.SingleNestedAttribute {
	until, instead := w.Until, "use `lifecycle { postcondition { condition = self.ready ... } }`."
	if until == "" {
		until = "the hub reports everything that is set here"
	}
	if w.Failing != "" {
		instead = "use `" + w.Failing + "`, or `lifecycle { postcondition { condition = self.ready ... } }`."
	}
	description := "Waits, after creating or changing the " + w.Kind + ", until " + until + ". " +
		"A wait that fails makes an update fail. After a creation it only warns and leaves `ready` false, " +
		"because an error would make Terraform destroy and re-create " + w.Lost + "; the next apply waits again. " +
		"To make the run fail there, too, " + instead + " " + w.Notes
	return schema.SingleNestedAttribute{
		MarkdownDescription: strings.TrimSpace(description),
		Optional:            true,
		Attributes:          w.Options.Attributes(),
		Validators:          []validator.Object{waitValidator{attribute.Described(w.Options.words("; ")), w.Options}},
	}
}

// WaitOption is an attribute that says what to wait for.
type WaitOption struct {
	Name   string
	Schema schema.Attribute
}

// WaitFlag is something that is waited for when it is true.
func WaitFlag(name, description string) WaitOption {
	return WaitOption{name, schema.BoolAttribute{MarkdownDescription: description, Optional: true}}
}

// WaitCount is a number that has to be reached.
func WaitCount(name, description string) WaitOption {
	return WaitOption{name, schema.Int64Attribute{
		MarkdownDescription: description,
		Optional:            true,
		Validators:          []validator.Int64{int64validator.AtLeast(1)},
	}}
}

// WaitConditions is the attribute conditions. It is required where it is the only one.
func WaitConditions(description string) WaitOption {
	return WaitOption{"conditions", schema.SetAttribute{
		MarkdownDescription: description,
		Optional:            true,
		ElementType:         types.StringType,
		Validators: []validator.Set{
			setvalidator.SizeAtLeast(1),
			setvalidator.ValueStringsAre(attribute.ValidWaitCondition()),
		},
	}}
}

// WaitOptions are what there is to wait for.
type WaitOptions []WaitOption

// Attributes are the options in a schema.
func (o WaitOptions) Attributes() map[string]schema.Attribute {
	attributes := map[string]schema.Attribute{}
	for _, option := range o {
		attributes[option.Name] = option.Schema
	}
	if conditions, ok := attributes["conditions"].(schema.SetAttribute); ok && len(o) == 1 {
		conditions.Optional, conditions.Required = false, true
		attributes["conditions"] = conditions
	}
	return attributes
}

// words are the options as a configuration sets them.
func (o WaitOptions) words(separator string) string {
	names := make([]string, len(o))
	for i, option := range o {
		names[i] = option.Name
		if _, flag := option.Schema.(schema.BoolAttribute); flag {
			names[i] += " = true"
		}
	}
	return strings.Join(names, separator)
}

// check refuses a wait for nothing, given the values of its attributes.
func (o WaitOptions) check(at path.Path, values map[string]attr.Value, diags *diag.Diagnostics) {
	for _, option := range o {
		switch value := values[option.Name].(type) {
		case nil:
		case types.Bool:
			if value.IsUnknown() || value.ValueBool() {
				return
			}
		default:
			if !value.IsNull() {
				return
			}
		}
	}
	diags.AddAttributeError(at, "Nothing to wait for",
		"The wait names nothing that it waits for: set "+o.words(" or ")+", or remove the wait.")
}

// waitValidator refuses a wait for nothing.
type waitValidator struct {
	attribute.Described
	options WaitOptions
}

// ValidateObject implements validator.Object.
func (v waitValidator) ValidateObject(_ context.Context, req validator.ObjectRequest, resp *validator.ObjectResponse) {
	if !req.ConfigValue.IsNull() && !req.ConfigValue.IsUnknown() {
		v.options.check(req.Path, req.ConfigValue.Attributes(), &resp.Diagnostics)
	}
}
