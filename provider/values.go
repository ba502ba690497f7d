package provider

import (
	"context"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

func sorted(names []string) []string {
	slices.Sort(names)
	return names
}

// capitalize makes an error's text begin a sentence.
func capitalize(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + text[size:]
}

// known reports whether a value and everything in it is known.
func known(value attr.Value) bool {
	terraform, err := value.ToTerraformValue(context.Background())
	return err == nil && terraform.IsFullyKnown()
}

// elements is a list or a set.
type elements interface {
	IsNull() bool
	IsUnknown() bool
	Elements() []attr.Value
}

// stringList is a list or set in Go; nil when it is null. Elements have to be
// known.
func stringList(list elements) []string {
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

// stringMap is the map in Go; nil when it is null. Elements have to be known.
func stringMap(m types.Map) map[string]string {
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

func stringListValue(texts []string) types.List {
	if texts == nil {
		return types.ListNull(types.StringType)
	}
	elements := make([]attr.Value, 0, len(texts))
	for _, text := range texts {
		elements = append(elements, types.StringValue(text))
	}
	return types.ListValueMust(types.StringType, elements)
}

func stringSetValue(texts []string) types.Set {
	elements := make([]attr.Value, 0, len(texts))
	for _, text := range texts {
		elements = append(elements, types.StringValue(text))
	}
	return types.SetValueMust(types.StringType, elements)
}

func stringMapValue(texts map[string]string) types.Map {
	if texts == nil {
		return types.MapNull(types.StringType)
	}
	elements := make(map[string]attr.Value, len(texts))
	for key, text := range texts {
		elements[key] = types.StringValue(text)
	}
	return types.MapValueMust(types.StringType, elements)
}

// optionalString is null for the empty text.
func optionalString(text string) types.String {
	if text == "" {
		return types.StringNull()
	}
	return types.StringValue(text)
}

// observedMap is what the server has of the entries that prior knows: the rest
// of the server's map is somebody else's. Entries that are gone are left out,
// which Terraform shows as a difference.
func observedMap(prior types.Map, live map[string]string) types.Map {
	if prior.IsNull() {
		return prior
	}
	observed := map[string]string{}
	for key := range prior.Elements() {
		if value, ok := live[key]; ok {
			observed[key] = value
		}
	}
	return stringMapValue(observed)
}

// importedMap is the part of the server's map that an import takes over: the
// owned entries, or, when nothing of the object is owned, all that keep lets
// through. It is null when that is nothing.
func importedMap(owned []string, none bool, live map[string]string, keep func(key string) bool) types.Map {
	imported := map[string]string{}
	for key, value := range live {
		if keep(key) && (none || slices.Contains(owned, key)) {
			imported[key] = value
		}
	}
	if len(imported) == 0 {
		return types.MapNull(types.StringType)
	}
	return stringMapValue(imported)
}

func joinLines(lines []string) string { return strings.Join(lines, "\n") }
