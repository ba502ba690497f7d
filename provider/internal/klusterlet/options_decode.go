package klusterlet

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// AgentOptionNames are the names of Attributes, in their order.
func AgentOptionNames() []string { return slices.Sorted(maps.Keys(attributeTypes())) }

// DecodeAgentOptions makes options of values in JSON's terms, named as Attributes are, and checks
// them. Errors name the attribute. It is for functions, whose arguments have no
// schema.
func DecodeAgentOptions(given map[string]any) (v1alpha1.AgentOptions, error) {
	attributes := map[string]attr.Value{}
	of := attributeTypes()
	for _, name := range slices.Sorted(maps.Keys(of)) {
		value, err := decode(name, of[name], given[name])
		if err != nil {
			return v1alpha1.AgentOptions{}, err
		}
		attributes[name] = value
	}
	if problems := problemsOf(attributes); len(problems) > 0 {
		return v1alpha1.AgentOptions{}, fmt.Errorf("%s: %s", placeOf(problems[0].Field, attributes, path.Empty()), problems[0].ErrorBody())
	}
	return read(attributes).options, nil
}

// decode is a value in JSON's terms as one of Terraform's, as Terraform converts
// values for a resource.
func decode(at string, t attr.Type, given any) (attr.Value, error) {
	if given == nil {
		return valueOf(t, nil), nil
	}
	switch t := t.(type) {
	case types.ObjectType:
		fields, ok := given.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s has to be an object", at)
		}
		return decodeObject(at, t, fields)
	case types.MapType:
		fields, ok := given.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s has to be a map", at)
		}
		entries := map[string]attr.Value{}
		for key, entry := range fields {
			value, err := decode(fmt.Sprintf("%s[%q]", at, key), t.ElemType, entry)
			if err != nil {
				return nil, err
			}
			entries[key] = value
		}
		return types.MapValueMust(t.ElemType, entries), nil
	case types.ListType:
		list, ok := given.([]any)
		if !ok {
			return nil, fmt.Errorf("%s has to be a list", at)
		}
		elements := []attr.Value{}
		for i, element := range list {
			value, err := decode(fmt.Sprintf("%s[%d]", at, i), t.ElemType, element)
			if err != nil {
				return nil, err
			}
			elements = append(elements, value)
		}
		return types.ListValueMust(t.ElemType, elements), nil
	}
	return decodeLeaf(at, t, given)
}

func decodeObject(at string, t types.ObjectType, fields map[string]any) (attr.Value, error) {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if _, ok := t.AttrTypes[name]; !ok {
			return nil, fmt.Errorf("%s has no attribute %s; its attributes are %s", at, name, strings.Join(slices.Sorted(maps.Keys(t.AttrTypes)), ", "))
		}
	}
	attributes := map[string]attr.Value{}
	for name, of := range t.AttrTypes {
		value, err := decode(at+"."+name, of, fields[name])
		if err != nil {
			return nil, err
		}
		attributes[name] = value
	}
	return types.ObjectValueMust(t.AttrTypes, attributes), nil
}

func decodeLeaf(at string, t attr.Type, given any) (attr.Value, error) {
	text, isText := given.(string)
	number, isNumber := given.(json.Number)
	flag, isFlag := given.(bool)
	switch t {
	case types.BoolType:
		if isText && (text == "true" || text == "false") {
			flag, isFlag = text == "true", true
		}
		if !isFlag {
			return nil, fmt.Errorf("%s has to be true or false", at)
		}
		return types.BoolValue(flag), nil
	case types.Int64Type:
		if isText {
			number, isNumber = json.Number(text), true
		}
		whole, err := number.Int64()
		if !isNumber || err != nil {
			return nil, fmt.Errorf("%s has to be a whole number", at)
		}
		return types.Int64Value(whole), nil
	}
	switch {
	case isText:
		return types.StringValue(text), nil
	case isNumber:
		return types.StringValue(number.String()), nil
	case isFlag:
		return types.StringValue(strconv.FormatBool(flag)), nil
	}
	if _, isList := given.([]any); isList {
		return nil, fmt.Errorf("%s has to be a text, and is a list", at)
	}
	return nil, fmt.Errorf("%s has to be a text, and is a map", at)
}
