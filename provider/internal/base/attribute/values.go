package attribute

import (
	"context"
	"iter"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"k8s.io/apimachinery/pkg/api/equality"
)

// Sorted sorts names in place and returns them.
func Sorted(names []string) []string {
	slices.Sort(names)
	return names
}

// Capitalize makes an error's text begin a sentence.
func Capitalize(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + text[size:]
}

// Known reports whether a value and everything in it is known.
func Known(value attr.Value) bool {
	terraform, err := value.ToTerraformValue(context.Background())
	return err == nil && terraform.IsFullyKnown()
}

// Elements is a list or a set.
type Elements interface {
	IsNull() bool
	IsUnknown() bool
	Elements() []attr.Value
}

// StringList is a list or set in Go; nil when it is null. Elements have to be
// known.
func StringList(list Elements) []string {
	if list.IsNull() || list.IsUnknown() {
		return nil
	}
	texts := make([]string, 0, len(list.Elements()))
	for _, element := range list.Elements() {
		if text, ok := element.(types.String); ok {
			texts = append(texts, text.ValueString())
		}
	}
	return texts
}

// StringMap is the map in Go; nil when it is null. Elements have to be known.
func StringMap(m types.Map) map[string]string {
	if m.IsNull() || m.IsUnknown() {
		return nil
	}
	texts := make(map[string]string, len(m.Elements()))
	for key, element := range m.Elements() {
		if text, ok := element.(types.String); ok {
			texts[key] = text.ValueString()
		}
	}
	return texts
}

// StringListValue is null for nil.
func StringListValue(texts []string) types.List {
	if texts == nil {
		return types.ListNull(types.StringType)
	}
	return types.ListValueMust(types.StringType, textElements(texts))
}

// StringSetValue is the set of texts; it is never null.
func StringSetValue(texts []string) types.Set {
	return types.SetValueMust(types.StringType, textElements(texts))
}

// StringMapValue is null for nil.
func StringMapValue(texts map[string]string) types.Map {
	if texts == nil {
		return types.MapNull(types.StringType)
	}
	elements := make(map[string]attr.Value, len(texts))
	for key, text := range texts {
		elements[key] = types.StringValue(text)
	}
	return types.MapValueMust(types.StringType, elements)
}

// OptionalString is null for the empty text.
func OptionalString(text string) types.String {
	if text == "" {
		return types.StringNull()
	}
	return types.StringValue(text)
}

// ImportedMap is the part of the server's map that an import takes over: the
// owned entries, or, when nothing of the object is owned, all that keep lets
// through. It is null when that is nothing.
func ImportedMap(owned []string, none bool, live map[string]string, keep func(key string) bool) types.Map {
	imported := map[string]string{}
	for key, value := range live {
		if keep(key) && (none || slices.Contains(owned, key)) {
			imported[key] = value
		}
	}
	if len(imported) == 0 {
		return types.MapNull(types.StringType)
	}
	return StringMapValue(imported)
}

// JoinLines makes one text of lines.
func JoinLines(lines []string) string { return strings.Join(lines, "\n") }

// OrEmpty is an empty map for nil.
func OrEmpty(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

// Texts is nil when there are none.
func Texts(values []types.String) []string {
	var list []string
	for _, value := range values {
		list = append(list, value.ValueString())
	}
	return list
}

// Same compares values of the API, for which nothing and an empty list are one.
func Same(a, b any) bool { return equality.Semantic.DeepEqual(a, b) }

// ValueText writes a value as it could stand in a configuration.
func ValueText(value attr.Value) string {
	if value.IsNull() {
		return "null"
	}
	return value.String()
}

// Changes are the names of the attributes that differ between two values of a
// resource, such as its plan and its state. Where one of them is null they are all
// different.
type Changes struct {
	all   bool
	names []string
}

// ChangesBetween compares two values of a resource.
func ChangesBetween(a, b tftypes.Value) Changes {
	x, y := map[string]tftypes.Value{}, map[string]tftypes.Value{}
	if a.IsNull() || b.IsNull() || a.As(&x) != nil || b.As(&y) != nil {
		return Changes{all: true}
	}
	var c Changes
	for name, value := range x {
		if other, ok := y[name]; !ok || !value.Equal(other) {
			c.names = append(c.names, name)
		}
	}
	return c
}

// In reports whether one of these attributes differs.
func (c Changes) In(names ...string) bool {
	return c.all || slices.ContainsFunc(c.names, func(name string) bool { return slices.Contains(names, name) })
}

// Beyond reports whether an attribute differs that is not one of these.
func (c Changes) Beyond(names ...string) bool {
	return c.all || slices.ContainsFunc(c.names, func(name string) bool { return !slices.Contains(names, name) })
}

// listValidator checks lists that are set and known.
type listValidator struct {
	Described
	check func(at path.Path, list types.List, diags *diag.Diagnostics)
}

// ValidateList implements validator.List.
func (v listValidator) ValidateList(_ context.Context, req validator.ListRequest, resp *validator.ListResponse) {
	if !req.ConfigValue.IsNull() && !req.ConfigValue.IsUnknown() {
		v.check(req.Path, req.ConfigValue, &resp.Diagnostics)
	}
}

// ValidList is a validator of lists. check gets those that are set and known.
func ValidList(
	description string, check func(at path.Path, list types.List, diags *diag.Diagnostics),
) validator.List {
	return listValidator{Described(description), check}
}

// ValuesOf are the attributes of a configuration, a plan or a state; none after an error.
func ValuesOf(
	ctx context.Context, from interface {
		Get(ctx context.Context, target any) diag.Diagnostics
	}, diags *diag.Diagnostics,
) Values {
	var whole types.Object
	diags.Append(from.Get(ctx, &whole)...)
	return whole.Attributes()
}

// EachObject has the attributes of the objects in a list, by their index, without those
// that are null or unknown.
func EachObject(list Elements) iter.Seq2[int, Values] {
	return func(yield func(int, Values) bool) {
		for i, element := range list.Elements() {
			object, ok := element.(types.Object)
			if ok && !object.IsNull() && !object.IsUnknown() && !yield(i, object.Attributes()) {
				return
			}
		}
	}
}

// Seen are the elements of a list by what they name.
type Seen map[string]path.Path

// Again adds an element, and refuses it where a former one has the same key. tail ends
// the sentence that begins with the two.
func (s Seen) Again(key string, at path.Path, summary, tail string, diags *diag.Diagnostics) bool {
	first, again := s[key]
	if again {
		diags.AddAttributeError(at, summary, Place(first)+" and "+Place(at)+" "+tail)
	} else {
		s[key] = at
	}
	return again
}
