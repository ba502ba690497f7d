package function

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/muster-fleet/terraform-provider-muster/internal/suggest"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
)

// attributeErrors checks the arguments of modules. Terraform drops attributes that a
// variable's type, or a resource's attribute, does not have, without a word.
type attributeErrors struct {
	resources func(context.Context) []func() resource.Resource
}

// NewAttributeErrors is attribute_errors, for these resources.
func NewAttributeErrors(resources func(context.Context) []func() resource.Resource) func() function.Function {
	return func() function.Function { return attributeErrors{resources} }
}

// Metadata implements function.Function.
func (attributeErrors) Metadata(_ context.Context, _ function.MetadataRequest, resp *function.MetadataResponse) {
	resp.Name = "attribute_errors"
}

// Definition implements function.Function.
func (attributeErrors) Definition(_ context.Context, _ function.DefinitionRequest, resp *function.DefinitionResponse) {
	resp.Definition = function.Definition{
		Summary: "What is wrong with the attributes of a module's argument",
		MarkdownDescription: "Compares a value with the attributes that it may have, nested ones included, and " +
			"returns a list of sentences about those that are not supported and those of another type; the list is " +
			"empty when there are none. It is for the `validation` of a module's variable of the type `any`: where a " +
			"variable has the type `object(…)`, and where a value is given to an attribute of a resource, Terraform " +
			"drops attributes that it does not know, so that a misspelt one has no effect and no error.\n\n" +
			"What is unknown while planning is checked when it is known. Attributes that are null, or left out, are " +
			"not errors. The sentences name attributes and never values, so that `nonsensitive` of the result " +
			"discloses no secret.",
		Parameters: []function.Parameter{
			function.DynamicParameter{
				Name: "shape",
				MarkdownDescription: "What the value may have: the name of a resource with that of an attribute, " +
					"such as `\"muster_klusterlet.cluster_connection\"`; `\"string\"`, `\"number\"`, `\"bool\"` or " +
					"`\"any\"`; an object with a shape for each attribute; `{ \"*\" = shape }` for a map; or " +
					"`[shape]` for a list.",
			},
			function.DynamicParameter{
				Name:                "value",
				MarkdownDescription: "The value to check.",
				AllowNullValue:      true,
				AllowUnknownValues:  true,
			},
		},
		Return: function.ListReturn{ElementType: types.StringType},
	}
}

// Run implements function.Function.
func (f attributeErrors) Run(ctx context.Context, req function.RunRequest, resp *function.RunResponse) {
	var shape, value types.Dynamic
	if resp.Error = req.Arguments.Get(ctx, &shape, &value); resp.Error != nil {
		return
	}
	wanted, err := f.typeOf(ctx, shape)
	if err != nil {
		resp.Error = refuse(err)
		return
	}
	found := findings{}
	found.compare(ctx, "", wanted, value)
	if len(found.errors) == 0 && found.unknown {
		resp.Error = resp.Result.Set(ctx, types.ListUnknown(types.StringType))
		return
	}
	resp.Error = resp.Result.Set(ctx, append([]string{}, found.errors...))
}

// typeOf is the type that a shape describes.
func (f attributeErrors) typeOf(ctx context.Context, shape attr.Value) (attr.Type, error) {
	switch s := shape.(type) {
	case types.Dynamic:
		return f.typeOf(ctx, s.UnderlyingValue())
	case types.String:
		return f.named(ctx, s.ValueString())
	case types.Object:
		return f.objectOf(ctx, s.Attributes())
	case types.Map:
		return f.objectOf(ctx, s.Elements())
	case types.Tuple:
		return f.listOf(ctx, s.Elements())
	case types.List:
		return f.listOf(ctx, s.Elements())
	}
	return nil, fmt.Errorf("a shape is a text, an object, or a list of one shape, and not %s", kindOf(shape))
}

func (f attributeErrors) listOf(ctx context.Context, elements []attr.Value) (attr.Type, error) {
	if len(elements) != 1 {
		return nil, fmt.Errorf("the shape of a list has one element, that of all elements, and not %d", len(elements))
	}
	element, err := f.typeOf(ctx, elements[0])
	return types.ListType{ElemType: element}, err
}

func (f attributeErrors) objectOf(ctx context.Context, shapes map[string]attr.Value) (attr.Type, error) {
	attributes := map[string]attr.Type{}
	for name, shape := range shapes {
		attribute, err := f.typeOf(ctx, shape)
		if err != nil {
			return nil, err
		}
		attributes[name] = attribute
	}
	if element, ok := attributes["*"]; ok && len(attributes) == 1 {
		return types.MapType{ElemType: element}, nil
	}
	return types.ObjectType{AttrTypes: attributes}, nil
}

// named is the type of an attribute of a resource, or one of Terraform's.
func (f attributeErrors) named(ctx context.Context, name string) (attr.Type, error) {
	switch name {
	case "string":
		return types.StringType, nil
	case "number":
		return types.NumberType, nil
	case "bool":
		return types.BoolType, nil
	case "any":
		return types.DynamicType, nil
	}
	parts := strings.Split(name, ".")
	for _, create := range f.resources(ctx) {
		made := create()
		var about resource.MetadataResponse
		made.Metadata(ctx, resource.MetadataRequest{ProviderTypeName: "muster"}, &about)
		if about.TypeName != parts[0] {
			continue
		}
		var described resource.SchemaResponse
		made.Schema(ctx, resource.SchemaRequest{}, &described)
		found := described.Schema.Type()
		for _, part := range parts[1:] {
			object, ok := found.(attr.TypeWithAttributeTypes)
			if !ok || object.AttributeTypes()[part] == nil {
				return nil, fmt.Errorf("%s has no attribute %s", parts[0], strings.Join(parts[1:], "."))
			}
			found = object.AttributeTypes()[part]
		}
		return found, nil
	}
	return nil, fmt.Errorf("%q is neither a resource with an attribute, such as muster_klusterlet.image, nor string, "+
		"number, bool or any", name)
}

// findings are what a comparison has found.
type findings struct {
	errors []string
	// all lists all attributes where one is misspelt, in place of those that may be meant.
	all bool
	// unknown says that a part of the value was unknown.
	unknown bool
}

func (f *findings) add(at, format string, arguments ...any) {
	if at == "" {
		at = "the value"
	}
	f.errors = append(f.errors, at+": "+fmt.Sprintf(format, arguments...))
}

// compare compares a value with the type that it should have.
func (f *findings) compare(ctx context.Context, at string, wanted attr.Type, value attr.Value) {
	if dynamic, ok := value.(types.Dynamic); ok && !dynamic.IsNull() && !dynamic.IsUnknown() {
		value = dynamic.UnderlyingValue()
	}
	switch {
	case value.IsUnknown():
		f.unknown = true
		return
	case value.IsNull():
		return
	}
	fields, isObject := fieldsIn(value)
	sequence, isList := value.(attribute.Elements)
	switch wanted := wanted.(type) {
	case types.ObjectType:
		if !isObject {
			f.add(at, "this has to be an object, and is %s", kindOf(value))
		}
		f.compareObject(ctx, at, wanted.AttrTypes, fields)
	case types.MapType:
		if !isObject {
			f.add(at, "this has to be a map, and is %s", kindOf(value))
		}
		for _, key := range slices.Sorted(maps.Keys(fields)) {
			f.compareElement(ctx, under(at, key), wanted.ElemType, fields[key])
		}
	case attr.TypeWithElementType:
		if !isList {
			f.add(at, "this has to be a list, and is %s", kindOf(value))
			return
		}
		for i, element := range sequence.Elements() {
			f.compareElement(ctx, fmt.Sprintf("%s[%d]", at, i), wanted.ElementType(), element)
		}
	default:
		if text := unlike(ctx, wanted, value); text != "" {
			f.add(at, "this has to be %s, and is %s", text, kindOf(value))
		}
	}
}

// compareElement is compare for an element, which is not left out by being null.
func (f *findings) compareElement(ctx context.Context, at string, wanted attr.Type, value attr.Value) {
	if _, isObject := wanted.(types.ObjectType); isObject && value.IsNull() {
		f.add(at, "this is null; an object without attributes is {}")
		return
	}
	f.compare(ctx, at, wanted, value)
}

// compareObject compares the attributes of an object with those that it may have.
func (f *findings) compareObject(
	ctx context.Context, at string, known map[string]attr.Type, fields map[string]attr.Value,
) {
	names := slices.Sorted(maps.Keys(known))
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if known[name] != nil {
			f.compare(ctx, under(at, name), known[name], fields[name])
			continue
		}
		if near := suggest.Name(name, names); near != "" && !f.all {
			f.add(under(at, name), "there is no such attribute. Did you mean %s?", near)
		} else {
			f.add(under(at, name), "there is no such attribute. There are: %s.", strings.Join(names, ", "))
		}
	}
}

// under is the path of an attribute or a map's element.
func under(at, name string) string {
	switch {
	case !hclsyntax.ValidIdentifier(name):
		return at + "[" + strconv.Quote(name) + "]"
	case at == "":
		return name
	}
	return at + "." + name
}

// fieldsIn are the attributes of an object, or the elements of a map.
func fieldsIn(value attr.Value) (map[string]attr.Value, bool) {
	switch v := value.(type) {
	case types.Object:
		return v.Attributes(), true
	case types.Map:
		return v.Elements(), true
	}
	return nil, false
}

// unlike is what a value has to be that Terraform can't convert to a primitive type;
// empty for others.
func unlike(ctx context.Context, wanted attr.Type, value attr.Value) string {
	text, isText := value.(types.String)
	_, isNumber := value.(types.Number)
	_, isBool := value.(types.Bool)
	switch target := wanted.TerraformType(ctx); {
	case target.Is(tftypes.String) && !isText && !isNumber && !isBool:
		return "a text"
	case target.Is(tftypes.Number):
		if _, err := strconv.ParseFloat(text.ValueString(), 64); !isNumber && (!isText || err != nil) {
			return "a number"
		}
	case target.Is(tftypes.Bool):
		if written := text.ValueString(); !isBool && (!isText || written != "true" && written != "false") {
			return "true or false"
		}
	}
	return ""
}

// kindOf is what a value is, in words.
func kindOf(value attr.Value) string {
	switch value.(type) {
	case types.String:
		return "a text"
	case types.Number:
		return "a number"
	case types.Bool:
		return "a bool"
	case types.Object:
		return "an object"
	case types.Map:
		return "a map"
	}
	return "a list"
}
