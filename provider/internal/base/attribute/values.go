package attribute

import (
	"context"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"
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

// ObservedMap is what the server has of the entries that prior knows: the rest
// of the server's map is somebody else's. Entries that are gone are left out,
// which Terraform shows as a difference.
func ObservedMap(prior types.Map, live map[string]string) types.Map {
	if prior.IsNull() {
		return prior
	}
	observed := map[string]string{}
	for key := range prior.Elements() {
		if value, ok := live[key]; ok {
			observed[key] = value
		}
	}
	return StringMapValue(observed)
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

// TextValues is nil when there are none.
func TextValues(list []string) []types.String {
	var values []types.String
	for _, text := range list {
		values = append(values, types.StringValue(text))
	}
	return values
}

// Same compares values of the API, for which nothing and an empty list are one.
func Same(a, b any) bool { return equality.Semantic.DeepEqual(a, b) }

// OrDefault is the text, or the standard one where none is set.
func OrDefault(text types.String, standard string) string {
	if text.ValueString() == "" {
		return standard
	}
	return text.ValueString()
}

// ValueText writes a value as it could stand in a configuration.
func ValueText(value attr.Value) string {
	if value.IsNull() {
		return "null"
	}
	return value.String()
}
