package attribute

import (
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The fields of a table that are only read: what the hub reports of a resource, and what
// data sources show. Each takes the attribute's description and reads a value of Go.

// Reported is an attribute that only the hub sets, such as a part of the status.
func Reported[P any, V attr.Value](name string, s schema.Attribute, read func(from P) V) Field[P] {
	return Field[P]{name: name, schema: s, read: func(from P) attr.Value { return read(from) }}
}

// ReportedText is a text, which may be empty.
func ReportedText[P any, T ~string](name, description string, read func(P) T) Field[P] {
	return Reported(name, TextAttribute(description),
		func(from P) types.String { return types.StringValue(string(read(from))) })
}

// ReportedTextOrNull is a text, and null in place of the empty one.
func ReportedTextOrNull[P any, T ~string](name, description string, read func(P) T) Field[P] {
	return Reported(name, TextAttribute(description),
		func(from P) types.String { return OptionalString(string(read(from))) })
}

// ReportedFlag is true or false.
func ReportedFlag[P any](name, description string, read func(P) bool) Field[P] {
	return Reported(name, FlagAttribute(description),
		func(from P) types.Bool { return types.BoolValue(read(from)) })
}

// ReportedNumber is a whole number.
func ReportedNumber[P any, T ~int | ~int32 | ~int64](name, description string, read func(P) T) Field[P] {
	return Reported(name, schema.Int64Attribute{MarkdownDescription: description, Computed: true},
		func(from P) types.Int64 { return types.Int64Value(int64(read(from))) })
}

// ReportedTextList are texts in order; an empty list for none.
func ReportedTextList[P any, T ~string](name, description string, read func(P) []T) Field[P] {
	return Reported(name, TextsAttribute(description),
		func(from P) types.List { return types.ListValueMust(types.StringType, textElements(read(from))) })
}

// ReportedTextMap are texts by name; an empty map for none.
func ReportedTextMap[P any](name, description string, read func(P) map[string]string) Field[P] {
	s := schema.MapAttribute{MarkdownDescription: description, Computed: true, ElementType: types.StringType}
	return Reported(name, s, func(from P) types.Map { return StringMapValue(OrEmpty(read(from))) })
}

// ReportedObject is an object.
func ReportedObject[P, E any](name, description string, read func(P) E, fields ...Field[E]) Field[P] {
	table := Table[E](fields)
	s := schema.SingleNestedAttribute{
		MarkdownDescription: description, Computed: true, Attributes: table.Attributes(),
	}
	return Reported(name, s,
		func(from P) types.Object { return types.ObjectValueMust(table.Types(), table.Read(read(from))) })
}

// ReportedObjects are objects in order; an empty list for none.
func ReportedObjects[P, E any](name, description string, read func(P) []E, fields ...Field[E]) Field[P] {
	table := Table[E](fields)
	s := schema.ListNestedAttribute{
		MarkdownDescription: description, Computed: true,
		NestedObject: schema.NestedAttributeObject{Attributes: table.Attributes()},
	}
	return Reported(name, s,
		func(from P) types.List { return types.ListValueMust(table.objectType(), table.Objects(read(from))) })
}

// ReportedObjectSet is ReportedObjects where the order says nothing.
func ReportedObjectSet[P, E any](name, description string, read func(P) []E, fields ...Field[E]) Field[P] {
	table := Table[E](fields)
	s := schema.SetNestedAttribute{
		MarkdownDescription: description, Computed: true,
		NestedObject: schema.NestedAttributeObject{Attributes: table.Attributes()},
	}
	return Reported(name, s,
		func(from P) types.Set { return types.SetValueMust(table.objectType(), table.Objects(read(from))) })
}

// ReportedConditions are the conditions of an object.
func ReportedConditions[P any](description string, read func(P) []metav1.Condition) Field[P] {
	type condition = metav1.Condition
	return ReportedObjects("conditions", description, read,
		ReportedText("type", "Type of the condition.", func(c condition) string { return c.Type }),
		ReportedText("status", "`True`, `False` or `Unknown`.", func(c condition) string { return string(c.Status) }),
		ReportedText("reason", "Reason in one word.", func(c condition) string { return c.Reason }),
		ReportedText("message", "Reason in a sentence.", func(c condition) string { return c.Message }),
		ReportedText("last_transition_time", "Since when it has this status, in RFC 3339.",
			func(c condition) string { return c.LastTransitionTime.UTC().Format(time.RFC3339) }))
}

// Objects are what the table reads of several objects.
func (t Table[P]) Objects(all []P) []attr.Value {
	values, kinds := make([]attr.Value, 0, len(all)), t.Types()
	for _, one := range all {
		values = append(values, types.ObjectValueMust(kinds, t.Read(one)))
	}
	return values
}

func (t Table[P]) objectType() types.ObjectType { return types.ObjectType{AttrTypes: t.Types()} }
