package klusterlet

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
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
		value, err := asWritten.decode(name, of[name], given[name])
		if err != nil {
			return v1alpha1.AgentOptions{}, err
		}
		attributes[name] = value
	}
	if problems := problemsOf(attributes); len(problems) > 0 {
		at := placeOf(problems[0].Field, attributes, path.Empty())
		return v1alpha1.AgentOptions{}, fmt.Errorf("%s: %s", at, problems[0].ErrorBody())
	}
	return read(attributes).options, nil
}

// names are those by which the attributes of objects are called.
type names bool

const (
	// asWritten are the names of attributes; there are no others.
	asWritten names = false
	// fromAPI are the names of the API's fields, of which those without an attribute are
	// left out.
	fromAPI names = true
)

// decode is a value in JSON's terms as one of Terraform's, as Terraform converts
// values for a resource.
func (n names) decode(at string, t attr.Type, given any) (attr.Value, error) {
	if given == nil {
		return attribute.Null(t), nil
	}
	switch t := t.(type) {
	case types.ObjectType:
		fields, ok := given.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s has to be an object", at)
		}
		return n.decodeObject(at, t, fields)
	case types.MapType:
		fields, ok := given.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s has to be a map", at)
		}
		entries := map[string]attr.Value{}
		for key, entry := range fields {
			value, err := n.decode(fmt.Sprintf("%s[%q]", at, key), t.ElemType, entry)
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
			value, err := n.decode(fmt.Sprintf("%s[%d]", at, i), t.ElemType, element)
			if err != nil {
				return nil, err
			}
			elements = append(elements, value)
		}
		return types.ListValueMust(t.ElemType, elements), nil
	}
	return decodeLeaf(at, t, given)
}

func (n names) decodeObject(at string, t types.ObjectType, fields map[string]any) (attr.Value, error) {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if _, ok := t.AttrTypes[name]; !ok && n == asWritten {
			return nil, fmt.Errorf("%s has no attribute %s; its attributes are %s",
				at, name, strings.Join(slices.Sorted(maps.Keys(t.AttrTypes)), ", "))
		}
	}
	attributes := map[string]attr.Value{}
	for name, of := range t.AttrTypes {
		field := name
		if n == fromAPI {
			field = camel(name)
		}
		value, err := n.decode(at+"."+name, of, fields[field])
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
	switch given.(type) {
	case []any:
		return nil, fmt.Errorf("%s has to be a text, and is a list", at)
	case map[string]any:
		return nil, fmt.Errorf("%s has to be a text, and is a map", at)
	}
	return types.StringValue(fmt.Sprint(given)), nil
}
