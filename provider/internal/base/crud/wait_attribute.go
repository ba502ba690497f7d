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
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
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
		Validators:          []validator.Object{attribute.ValidObject(w.Options.words("; "), w.Options.check)},
	}
}

// afterCreation says of a wait that was not met what comes of it, and how to have the run
// fail.
func (w WaitAttribute) afterCreation() string {
	text := "The " + w.Kind + " stays as it is, and the next apply waits again. This run succeeds all the same, " +
		"because Terraform would destroy what an error leaves behind. To make it fail, "
	if w.Failing != "" {
		text += "wait with " + w.Failing + ", or "
	}
	return text + "add a lifecycle postcondition on self.ready."
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
func (o WaitOptions) check(at path.Path, values attribute.Values, diags *diag.Diagnostics) {
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

// WaitResource is a kind of resource that only waits for an object: a failure is an error,
// which taints nothing but the wait, and is waited for again by the next apply. The
// resource goes with the object, and nothing imports it.
type WaitResource[O kube.Object] struct {
	// Type, Keys, Description and Empty are as in Kind. Noun is what the object is called.
	Type, Noun, Description string
	Keys                    []Key
	Empty                   O
	// Options are what there is to wait for. Where there are several, the first one is
	// waited for if none is set.
	Options WaitOptions
	// Again are the attributes whose change makes it wait again.
	Again attribute.Table[O]
	// Wait waits for c.Object as the options say, and returns what to report if the wait
	// was not met. It ends with waiting.
	Wait func(waiting context.Context, c *Change[O], options types.Object) (summary, problem string)
}

// Kind is the kind.
func (w WaitResource[O]) Kind() Declared {
	table, first := w.Again, w.Options[0].Name
	for name, s := range w.Options.Attributes() {
		if flag, ok := s.(schema.BoolAttribute); ok && name == first {
			flag.MarkdownDescription += " Defaults to `true` where nothing else is set to wait for."
			s = flag
		}
		table = append(table, attribute.Local[O](name, s))
	}
	return &Kind[O]{
		Type: w.Type, Noun: "the wait for " + w.Noun, Keys: w.Keys, Description: w.Description, Empty: w.Empty,
		Sole: true, Table: table,
		Timeouts: Timeouts{Create: "the first wait", Update: "a wait for a change"},
		Part:     &Part[O]{Write: w.wait, NoImport: true},
		Hooks: Hooks[O]{
			Validate: func(ctx context.Context, config tfsdk.Config, diags *diag.Diagnostics) {
				if values := attribute.ValuesOf(ctx, config, diags); values.IsSet(first) {
					w.Options.check(path.Root(first), values, diags)
				}
			},
		},
	}
}

// wait waits, unless only a timeout has changed.
func (w WaitResource[O]) wait(ctx context.Context, c *Change[O]) bool {
	if c.Prior != nil && !c.Changes.Beyond("timeouts") {
		return true
	}
	kinds, options := map[string]attr.Type{}, map[string]attr.Value{}
	standard := len(w.Options) > 1
	for name, s := range w.Options.Attributes() {
		kinds[name], options[name] = s.GetType(), c.Plan[name]
		standard = standard && c.Plan[name].IsNull()
	}
	if standard {
		options[w.Options[0].Name] = types.BoolValue(true)
	}
	summary, problem := w.Wait(ctx, c, types.ObjectValueMust(kinds, options))
	if problem != "" {
		c.Diagnostics.AddError(summary, problem)
	}
	return problem == ""
}
