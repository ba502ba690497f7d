package attribute

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// Place names an attribute as people write it: taints["gpu"].effect. An element of a
// set is named by its key, name or type, where the framework prints all of it.
func Place(at path.Path) string {
	var out strings.Builder
	for _, step := range at.Steps() {
		switch s := step.(type) {
		case path.PathStepAttributeName:
			if out.Len() > 0 {
				out.WriteByte('.')
			}
			out.WriteString(string(s))
		case path.PathStepElementKeyInt:
			fmt.Fprintf(&out, "[%d]", int64(s))
		case path.PathStepElementKeyString:
			fmt.Fprintf(&out, "[%q]", string(s))
		case path.PathStepElementKeyValue:
			fmt.Fprintf(&out, "[%s]", elementName(s))
		}
	}
	return out.String()
}

func elementName(step path.PathStepElementKeyValue) string {
	switch value := step.Value.(type) {
	case types.String:
		return fmt.Sprintf("%q", value.ValueString())
	case types.Object:
		for _, name := range []string{"key", "name", "type"} {
			if text, ok := value.Attributes()[name].(types.String); ok && text.ValueString() != "" {
				return fmt.Sprintf("%q", text.ValueString())
			}
		}
	}
	return "an element"
}

// OneOf admits the values of an enumeration.
func OneOf[T ~string](values ...T) []validator.String {
	texts := make([]string, 0, len(values))
	for _, value := range values {
		texts = append(texts, string(value))
	}
	return []validator.String{ValidText("one of "+strings.Join(texts, ", "),
		func(at path.Path, text string) (summary, detail string) {
			if slices.Contains(texts, text) {
				return "", ""
			}
			return "Invalid value", fmt.Sprintf("%s is %q, but it takes one of %s.", Place(at), text,
				strings.Join(texts,
					", "))
		})}
}

// LengthBetween admits texts of so many bytes.
func LengthBetween(least, most int) validator.String {
	return ValidText(fmt.Sprintf("a text of %d to %d bytes", least, most),
		func(at path.Path, text string) (summary, detail string) {
			if least <= len(text) && len(text) <= most {
				return "", ""
			}
			return "Invalid length", fmt.Sprintf("%s has %d bytes, but it takes %d to %d.", Place(at), len(text), least,
				most)
		})
}

// NotEmpty refuses the empty text.
func NotEmpty() validator.String {
	return ValidText("a text that is not empty", func(at path.Path, text string) (summary, detail string) {
		if text != "" {
			return "", ""
		}
		return "Empty text", Place(at) + " is empty. Write a value, or leave it out."
	})
}

// Not refuses texts that are reserved. why says for what.
func Not(why string, texts ...string) validator.String {
	return ValidText("none of "+strings.Join(texts, ", "), func(at path.Path, text string) (summary, detail string) {
		if !slices.Contains(texts, text) {
			return "", ""
		}
		return "Reserved value", fmt.Sprintf("%s is %q, but %s.", Place(at), text, why)
	})
}

// ExactlyOne refuses objects in which not exactly one of the attributes is set.
func ExactlyOne(attributes ...string) validator.Object {
	return exactlyOne{Described("exactly one of " + strings.Join(attributes, ", ")), attributes}
}

type exactlyOne struct {
	Described
	attributes []string
}

// ValidateObject implements validator.Object.
func (v exactlyOne) ValidateObject(_ context.Context, req validator.ObjectRequest, resp *validator.ObjectResponse) {
	var set []string
	for _, name := range v.attributes {
		value, ok := req.ConfigValue.Attributes()[name]
		switch {
		case !ok:
		case value.IsUnknown():
			return
		case !value.IsNull():
			set = append(set, name)
		}
	}
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() || len(set) == 1 {
		return
	}
	has := "neither is set"
	if len(set) > 1 {
		has = "it has " + strings.Join(set, " and ")
	}
	resp.Diagnostics.AddAttributeError(req.Path, "Not one of the alternatives",
		fmt.Sprintf("%s takes exactly one of %s, and %s.", Place(req.Path), strings.Join(v.attributes, ", "), has))
}
