package attribute

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
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
	list := strings.Join(texts, ", ")
	return []validator.String{ValidText("one of "+list, func(at path.Path, text string) (summary, detail string) {
		if slices.Contains(texts, text) {
			return "", ""
		}
		return "Invalid value", fmt.Sprintf("%s is %q, but it takes one of %s.", Place(at), text, list)
	})}
}

// Fitting admits texts that fit. advice, which may be nil, says what to do about one that
// does not.
func Fitting(
	summary, description string, fits func(text string) bool, advice func(text string) string,
) validator.String {
	return ValidText(description, func(at path.Path, text string) (problem, detail string) {
		if fits(text) {
			return "", ""
		}
		detail = fmt.Sprintf("%s is %q, but it takes %s.", Place(at), text, description)
		if advice != nil {
			detail += " " + advice(text)
		}
		return summary, strings.TrimSpace(detail)
	})
}

// LengthBetween admits texts of so many bytes.
func LengthBetween(least, most int) validator.String {
	description := fmt.Sprintf("a text of %d to %d bytes", least, most)
	return ValidText(description, func(at path.Path, text string) (summary, detail string) {
		if least <= len(text) && len(text) <= most {
			return "", ""
		}
		return "Invalid length", fmt.Sprintf("%s has %d bytes, but it takes %d to %d.", Place(at), len(text), least, most)
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
	names := strings.Join(attributes, ", ")
	return ValidObject("exactly one of "+names, func(at path.Path, values Values, diags *diag.Diagnostics) {
		var set []string
		for _, name := range attributes {
			if value := values[name]; value != nil && value.IsUnknown() {
				return
			}
			if values.IsSet(name) {
				set = append(set, name)
			}
		}
		if len(set) == 1 {
			return
		}
		has := "neither is set"
		if len(set) > 1 {
			has = "it has " + strings.Join(set, " and ")
		}
		diags.AddAttributeError(at, "Not one of the alternatives",
			fmt.Sprintf("%s takes exactly one of %s, and %s.", Place(at), names, has))
	})
}

// ValidObject is a validator of objects. check gets the attributes of those that are set
// and known.
func ValidObject(
	description string, check func(at path.Path, values Values, diags *diag.Diagnostics),
) validator.Object {
	return objectValidator{Described(description), check}
}

type objectValidator struct {
	Described
	check func(at path.Path, values Values, diags *diag.Diagnostics)
}

// ValidateObject implements validator.Object.
func (v objectValidator) ValidateObject(
	_ context.Context, req validator.ObjectRequest, resp *validator.ObjectResponse,
) {
	if !req.ConfigValue.IsNull() && !req.ConfigValue.IsUnknown() {
		v.check(req.Path, req.ConfigValue.Attributes(), &resp.Diagnostics)
	}
}
