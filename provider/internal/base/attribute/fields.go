package attribute

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The kinds of fields in a table. Each takes the attribute's schema and a function that
// points to the field. An empty field is an attribute that is left out, unless the
// schema has a default.

// Text is a field with a text.
func Text[P any, T ~string](name string, s schema.StringAttribute, at func(P) *T) Field[P] {
	return Code(name, s,
		func(value types.String, to P) { *at(to) = T(value.ValueString()) },
		func(from P) types.String {
			if s.Default != nil {
				return types.StringValue(string(*at(from)))
			}
			return OptionalString(string(*at(from)))
		})
}

// TextPointer is a field with a text for which "" is not the same as nothing.
func TextPointer[P any, T ~string](name string, s schema.StringAttribute, at func(P) **T) Field[P] {
	return Code(name, s,
		func(value types.String, to P) {
			text := T(value.ValueString())
			*at(to) = &text
		},
		func(from P) types.String {
			if text := *at(from); text != nil {
				return types.StringValue(string(*text))
			}
			return types.StringNull()
		})
}

// Flag is a field that is true or false.
func Flag[P any](name string, s schema.BoolAttribute, at func(P) *bool) Field[P] {
	return Code(name, s,
		func(value types.Bool, to P) { *at(to) = value.ValueBool() },
		func(from P) types.Bool {
			if !*at(from) && s.Default == nil {
				return types.BoolNull()
			}
			return types.BoolValue(*at(from))
		})
}

// FlagPointer is a field for which false is not the same as nothing.
func FlagPointer[P any](name string, s schema.BoolAttribute, at func(P) **bool) Field[P] {
	return Code(name, s,
		func(value types.Bool, to P) {
			truth := value.ValueBool()
			*at(to) = &truth
		},
		func(from P) types.Bool { return types.BoolPointerValue(*at(from)) })
}

// Number is a field with a whole number.
func Number[P any, T ~int | ~int32 | ~int64](name string, s schema.Int64Attribute, at func(P) *T) Field[P] {
	return Code(name, s,
		func(value types.Int64, to P) { *at(to) = T(value.ValueInt64()) },
		func(from P) types.Int64 {
			if *at(from) == 0 && s.Default == nil {
				return types.Int64Null()
			}
			return types.Int64Value(int64(*at(from)))
		})
}

// NumberPointer is a field with a whole number for which 0 is not the same as nothing.
func NumberPointer[P any, T ~int | ~int32 | ~int64](name string, s schema.Int64Attribute, at func(P) **T) Field[P] {
	return Code(name, s,
		func(value types.Int64, to P) {
			number := T(value.ValueInt64())
			*at(to) = &number
		},
		func(from P) types.Int64 {
			if number := *at(from); number != nil {
				return types.Int64Value(int64(*number))
			}
			return types.Int64Null()
		})
}

// Seconds is a field with whole seconds, as the text of a duration such as 8h.
func Seconds[P any](name string, s schema.StringAttribute, at func(P) *int32) Field[P] {
	return Code(name, s,
		func(value types.String, to P) {
			d, err := time.ParseDuration(value.ValueString())
			if seconds := d / time.Second; err == nil && seconds <= math.MaxInt32 {
				*at(to) = int32(seconds)
			}
		},
		func(from P) types.String {
			if *at(from) == 0 && s.Default == nil {
				return types.StringNull()
			}
			text := ShortDuration(time.Duration(*at(from)) * time.Second)
			if hours, ok := strings.CutSuffix(text, "h0m"); ok { // 8h for 28800 seconds
				text = hours + "h"
			}
			return types.StringValue(text)
		})
}

// TextList is a field with texts in an order that matters.
func TextList[P any, T ~string](name string, s schema.ListAttribute, at func(P) *[]T) Field[P] {
	s.ElementType = types.StringType
	return Code(name, s,
		func(value types.List, to P) { *at(to) = texts[T](value) },
		func(from P) types.List {
			if len(*at(from)) == 0 {
				return types.ListNull(types.StringType)
			}
			return types.ListValueMust(types.StringType, textElements(*at(from)))
		})
}

// TextSet is a field with texts in any order. They are written sorted.
func TextSet[P any, T ~string](name string, s schema.SetAttribute, at func(P) *[]T) Field[P] {
	s.ElementType = types.StringType
	return Code(name, s,
		func(value types.Set, to P) {
			*at(to) = texts[T](value)
			slices.Sort(*at(to))
		},
		func(from P) types.Set {
			if len(*at(from)) == 0 {
				return types.SetNull(types.StringType)
			}
			return types.SetValueMust(types.StringType, textElements(*at(from)))
		})
}

// TextSetOf is TextSet for a field whose elements are objects with one text.
func TextSetOf[P, E any](name string, s schema.SetAttribute, at func(P) *[]E, text func(*E) *string) Field[P] {
	s.ElementType = types.StringType
	return Code(name, s,
		func(value types.Set, to P) {
			for _, one := range Sorted(StringList(value)) {
				var e E
				*text(&e) = one
				*at(to) = append(*at(to), e)
			}
		},
		func(from P) types.Set {
			elements := *at(from)
			if len(elements) == 0 {
				return types.SetNull(types.StringType)
			}
			var list []string
			for i := range elements {
				list = append(list, *text(&elements[i]))
			}
			return StringSetValue(list)
		})
}

// TextMap is a field with texts by name.
func TextMap[P any](name string, s schema.MapAttribute, at func(P) *map[string]string) Field[P] {
	s.ElementType = types.StringType
	return Code(name, s,
		func(value types.Map, to P) { *at(to) = StringMap(value) },
		func(from P) types.Map {
			if len(*at(from)) == 0 {
				return types.MapNull(types.StringType)
			}
			return StringMapValue(*at(from))
		})
}

// LabelsField are the labels of an object. Those of others stay.
func LabelsField[P metav1.Object](description string) Field[P] {
	return Code("labels", Labels(description, nil),
		func(value types.Map, to P) { to.SetLabels(StringMap(value)) },
		func(from P) types.Map { return StringMapValue(OrEmpty(from.GetLabels())) }).
		At("metadata.labels").BesideOthers()
}

// AnnotationsField are the annotations of an object, without the provider's own, and
// without those that are other attributes. Those of others stay.
func AnnotationsField[P metav1.Object](description string, without ...string) Field[P] {
	return Code("annotations", Annotations(description),
		func(value types.Map, to P) { to.SetAnnotations(StringMap(value)) },
		func(from P) types.Map {
			annotations := WithoutMark(from.GetAnnotations())
			for _, key := range without {
				delete(annotations, key)
			}
			return StringMapValue(annotations)
		}).
		At("metadata.annotations").BesideOthers()
}

// AnnotationsBeside is AnnotationsField where some annotations are other attributes. others
// says of each which one to use, as in "use hosting_cluster".
func AnnotationsBeside[P metav1.Object](description string, others map[string]string) Field[P] {
	f, s := AnnotationsField[P](description, slices.Collect(maps.Keys(others))...), Annotations(description)
	s.Validators = []validator.Map{labelsValidator{
		Described: "Kubernetes annotations", annotations: true,
		reserved: func(key string) string { return cmp.Or(others[key], ReservedAnnotation(key)) },
	}}
	f.schema = s
	return f
}

// AnnotationField is an attribute that is one annotation of an object. It stays as it is
// where the attribute is left out. Its line in the table comes after AnnotationsField.
func AnnotationField[P metav1.Object](name string, s schema.StringAttribute, key string) Field[P] {
	return Code(name, s,
		func(value types.String, to P) {
			annotations := OrEmpty(to.GetAnnotations())
			annotations[key] = value.ValueString()
			to.SetAnnotations(annotations)
		},
		func(from P) types.String { return OptionalString(from.GetAnnotations()[key]) }).
		AtAnnotation(key).BesideOthers()
}

// Object is a field with an object of its own attributes. One in which nothing is set
// is an attribute that is left out.
func Object[P, E any](name string, s schema.SingleNestedAttribute, at func(P) *E, fields ...Field[*E]) Field[P] {
	table := Table[*E](fields)
	s.Attributes = table.Attributes()
	f := Code(name, s,
		func(value types.Object, to P) { table.Write(value.Attributes(), at(to)) },
		func(from P) types.Object { return table.Object(at(from)) })
	f.empty = emptyOf(table)
	f.observe = func(prior attr.Value, own, live P) attr.Value {
		object, _ := prior.(types.Object)
		values := Values(object.Attributes())
		table.Observe(values, at(own), at(live))
		return types.ObjectValueMust(table.Types(), values)
	}
	return f
}

// ObjectPointer is Object for a field for which an empty object is not the same as
// nothing.
func ObjectPointer[P, E any](
	name string, s schema.SingleNestedAttribute, at func(P) **E, fields ...Field[*E],
) Field[P] {
	table := Table[*E](fields)
	s.Attributes = table.Attributes()
	f := Code(name, s,
		func(value types.Object, to P) {
			*at(to) = new(E)
			table.Write(value.Attributes(), *at(to))
		},
		func(from P) types.Object {
			if *at(from) == nil {
				return types.ObjectNull(table.Types())
			}
			return types.ObjectValueMust(table.Types(), table.Read(*at(from)))
		})
	f.empty = emptyOf(table)
	return f
}

// Objects is a field with a list of objects. What was written is compared element by
// element.
func Objects[P, E any](name string, s schema.ListNestedAttribute, at func(P) *[]E, fields ...Field[*E]) Field[P] {
	table := Table[*E](fields)
	s.NestedObject.Attributes = table.Attributes()
	pointers := func(from P) []*E {
		var list []*E
		for i := range *at(from) {
			list = append(list, &(*at(from))[i])
		}
		return list
	}
	f := Code(name, s,
		func(value types.List, to P) { *at(to) = append(*at(to), objectsIn(table, value)...) },
		func(from P) types.List {
			if len(*at(from)) == 0 {
				return types.ListNull(table.objectType())
			}
			return types.ListValueMust(table.objectType(), objectValues(table, *at(from)))
		})
	f.observe = func(prior attr.Value, own, live P) attr.Value {
		before, _ := prior.(types.List)
		written, values := pointers(own), objectValues(table, *at(live))
		for i, was := range before.Elements() {
			if object, ok := was.(types.Object); ok && i < len(values) && i < len(written) {
				observed := Values(object.Attributes())
				table.Observe(observed, written[i], pointers(live)[i])
				values[i] = types.ObjectValueMust(table.Types(), observed)
			}
		}
		return types.ListValueMust(table.objectType(), values)
	}
	return f
}

// ObjectSet is a field with objects in any order; an empty set for none.
func ObjectSet[P, E any](
	name string, s schema.SetNestedAttribute, write func(objects []E, to P), read func(from P) []E, fields ...Field[*E],
) Field[P] {
	table := Table[*E](fields)
	s.NestedObject.Attributes = table.Attributes()
	return Code(name, s,
		func(value types.Set, to P) { write(objectsIn(table, value), to) },
		func(from P) types.Set { return types.SetValueMust(table.objectType(), objectValues(table, read(from))) })
}

// objectsIn are the objects of a list or a set.
func objectsIn[E any](table Table[*E], value Elements) []E {
	var objects []E
	for _, one := range value.Elements() {
		var e E
		if object, ok := one.(types.Object); ok {
			table.Write(object.Attributes(), &e)
		}
		objects = append(objects, e)
	}
	return objects
}

// objectValues are objects as the elements of a list or a set.
func objectValues[E any](table Table[*E], objects []E) []attr.Value {
	pointers := make([]*E, len(objects))
	for i := range objects {
		pointers[i] = &objects[i]
	}
	return table.Objects(pointers)
}

// emptyOf is an object in which nothing is set.
func emptyOf[E any](table Table[*E]) func() attr.Value {
	return func() attr.Value { return types.ObjectValueMust(table.Types(), table.Read(new(E))) }
}

// Object has the values of an object; it is null where nothing is set.
func (t Table[P]) Object(from P) types.Object {
	values := t.Read(from)
	for value := range maps.Values(values) {
		if !value.IsNull() {
			return types.ObjectValueMust(t.Types(), values)
		}
	}
	return types.ObjectNull(t.Types())
}

// Code is a field for which there is code: write puts the value, which is not null,
// into an object that has none, and read takes it from there.
func Code[P any, V attr.Value](
	name string, s schema.Attribute, write func(value V, to P), read func(from P) V,
) Field[P] {
	return Field[P]{
		name: name, schema: s,
		write: func(value attr.Value, to P) {
			if of, ok := value.(V); ok {
				write(of, to)
			}
		},
		read: func(from P) attr.Value { return read(from) },
	}
}

// ByHooks is an attribute that hooks of the kind write and read.
func ByHooks[P any](name string, s schema.Attribute) Field[P] {
	return Field[P]{name: name, schema: s, write: func(attr.Value, P) {}}
}

// Within is a field of an object that is there only when the attribute is set.
func Within[P, E any](at func(P) **E, of Field[*E]) Field[P] {
	f := Field[P]{name: of.name, schema: of.schema}
	f.write = func(value attr.Value, to P) {
		if *at(to) == nil {
			*at(to) = new(E)
		}
		of.write(value, *at(to))
	}
	f.read = func(from P) attr.Value {
		if *at(from) == nil {
			return of.null()
		}
		return of.read(*at(from))
	}
	return f
}

// Through are fields of what stands for the object: get makes it of the object, and put
// writes it there.
func Through[P, E any](get func(from P) E, put func(e E, to P), fields ...Field[E]) []Field[P] {
	within := make([]Field[P], 0, len(fields))
	for _, f := range fields {
		outer := Field[P]{name: f.name, schema: f.schema, at: f.at, standard: f.standard}
		outer.others, outer.once = f.others, f.once
		outer.read = func(from P) attr.Value { return f.read(get(from)) }
		if f.write != nil {
			outer.write = func(value attr.Value, to P) {
				e := get(to)
				f.write(value, e)
				put(e, to)
			}
		}
		if f.imported != nil {
			outer.imported = func(owned Owned, from P) bool { return f.imported(owned, get(from)) }
		}
		within = append(within, outer)
	}
	return within
}

// Local is an attribute that the hub knows nothing of.
func Local[P any](name string, s schema.Attribute) Field[P] { return Field[P]{name: name, schema: s} }

// As is a value as a model with tfsdk tags; an empty one where it does not fit.
func As[M any](value attr.Value) M {
	var model M
	if value != nil {
		tfsdk.ValueAs(context.Background(), value, &model)
	}
	return model
}

// Required is the schema of a text that has to be set.
func Required(description string, validators ...validator.String) schema.StringAttribute {
	return schema.StringAttribute{MarkdownDescription: description, Required: true, Validators: validators}
}

// Optional is the schema of a text that may be left out.
func Optional(description string, validators ...validator.String) schema.StringAttribute {
	return schema.StringAttribute{MarkdownDescription: description, Optional: true, Validators: validators}
}

// OptionalNumber is the schema of a whole number that may be left out.
func OptionalNumber(description string, validators ...validator.Int64) schema.Int64Attribute {
	return schema.Int64Attribute{MarkdownDescription: description, Optional: true, Validators: validators}
}

// OptionalFlag is the schema of something that is true or false, or left out.
func OptionalFlag(description string) schema.BoolAttribute {
	return schema.BoolAttribute{MarkdownDescription: description, Optional: true}
}

// Defaulted is the schema of a text that has a value where it is left out.
func Defaulted[T ~string](description string, value T, validators ...validator.String) schema.StringAttribute {
	s := Optional(description, validators...)
	s.Computed, s.Default = true, stringdefault.StaticString(string(value))
	return s
}

// Choice is the schema of a text that is one of these, and the first of them by default.
func Choice[T ~string](description string, choices ...T) schema.StringAttribute {
	return Defaulted(description, choices[0], OneOf(choices...)...)
}

// DefaultFlag is the schema of something that is true or false, and value where it is left
// out.
func DefaultFlag(description string, value bool) schema.BoolAttribute {
	s := OptionalFlag(description)
	s.Computed, s.Default = true, booldefault.StaticBool(value)
	return s
}

// OptionalTexts is the schema of a list of texts that may be left out.
func OptionalTexts(description string, validators ...validator.List) schema.ListAttribute {
	return schema.ListAttribute{
		MarkdownDescription: description, Optional: true, ElementType: types.StringType, Validators: validators,
	}
}

// OptionalTextSet is OptionalTexts where the order says nothing.
func OptionalTextSet(description string, validators ...validator.Set) schema.SetAttribute {
	return schema.SetAttribute{
		MarkdownDescription: description, Optional: true, ElementType: types.StringType, Validators: validators,
	}
}

// OptionalTextMap is the schema of texts by name that may be left out.
func OptionalTextMap(description string, validators ...validator.Map) schema.MapAttribute {
	return schema.MapAttribute{
		MarkdownDescription: description, Optional: true, ElementType: types.StringType, Validators: validators,
	}
}

// OptionalObject is the schema of an object that may be left out. Its attributes come from a
// table.
func OptionalObject(description string) schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{MarkdownDescription: description, Optional: true}
}

// RequiredObject is OptionalObject for one that has to be set.
func RequiredObject(description string) schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{MarkdownDescription: description, Required: true}
}

// OptionalObjects is the schema of a list of objects that may be left out.
func OptionalObjects(description string, validators ...validator.List) schema.ListNestedAttribute {
	return schema.ListNestedAttribute{MarkdownDescription: description, Optional: true, Validators: validators}
}

// Null is the null value of a type.
func Null(of attr.Type) attr.Value { return valueOf(of, nil) }

// Unknown is the unknown value of a type.
func Unknown(of attr.Type) attr.Value { return valueOf(of, tftypes.UnknownValue) }

func valueOf(of attr.Type, raw any) attr.Value {
	ctx := context.Background()
	value, err := of.ValueFromTerraform(ctx, tftypes.NewValue(of.TerraformType(ctx), raw))
	if err != nil {
		return types.DynamicNull() // No type of a schema fails.
	}
	return value
}

func texts[T ~string](value Elements) []T {
	var list []T
	for _, text := range StringList(value) {
		list = append(list, T(text))
	}
	return list
}

func textElements[T ~string](list []T) []attr.Value {
	elements := make([]attr.Value, 0, len(list))
	for _, text := range list {
		elements = append(elements, types.StringValue(string(text)))
	}
	return elements
}
