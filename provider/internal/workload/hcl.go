package workload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
)

// Between Kubernetes objects and HCL's values, there and back.

// ErrUnknown is that of a value that will be known after apply.
var ErrUnknown = errors.New("it is not known yet")

// JSONValue is a value of the configuration in JSON's terms. Attributes that are
// null are left out, as if they were not there.
func JSONValue(value attr.Value) (any, error) {
	if value == nil || value.IsNull() {
		return nil, nil
	}
	if value.IsUnknown() {
		return nil, ErrUnknown
	}
	switch value := value.(type) {
	case types.Dynamic:
		return JSONValue(value.UnderlyingValue())
	case types.String:
		return value.ValueString(), nil
	case types.Bool:
		return value.ValueBool(), nil
	case types.Number:
		return jsonNumber(value.ValueBigFloat()), nil
	case types.Object:
		return jsonMap(value.Attributes())
	case types.Map:
		return jsonMap(value.Elements())
	case attribute.Elements:
		list := make([]any, 0, len(value.Elements()))
		for i, element := range value.Elements() {
			converted, err := JSONValue(element)
			if err != nil {
				return nil, at(fmt.Sprintf("[%d]", i), err)
			}
			list = append(list, converted)
		}
		return list, nil
	default:
		return nil, fmt.Errorf("it is a %T, which has no form in JSON; write texts, numbers, truth values, lists and "+
			"objects", value)
	}
}

func jsonMap(fields map[string]attr.Value) (any, error) {
	converted := make(map[string]any, len(fields))
	for name, field := range fields {
		value, err := JSONValue(field)
		if err != nil {
			return nil, at("."+name, err)
		}
		if value != nil {
			converted[name] = value
		}
	}
	return converted, nil
}

// at says where in a value an error is; unknown is unknown wherever it is.
func at(where string, err error) error {
	if errors.Is(err, ErrUnknown) {
		return err
	}
	return fmt.Errorf("at %s: %w", where, err)
}

// jsonNumber writes whole numbers exactly and others as a server keeps them, in
// 64 bits.
func jsonNumber(number *big.Float) json.Number {
	if number.IsInt() {
		return json.Number(number.Text('f', 0))
	}
	float, _ := number.Float64()
	return json.Number(strconv.FormatFloat(float, 'g', -1, 64))
}

// HCLValue is a value in JSON's terms as one of HCL: an object for each map and
// a tuple for each list, since their elements may be of any type.
func HCLValue(value any) (attr.Value, error) {
	switch value := value.(type) {
	case nil:
		return types.StringNull(), nil // In a list; anywhere else it is left out.
	case string:
		return types.StringValue(value), nil
	case bool:
		return types.BoolValue(value), nil
	case json.Number:
		number, _, err := big.ParseFloat(value.String(), 10, 512, big.ToNearestEven)
		if err != nil {
			return nil, fmt.Errorf("read the number %s: %w", value, err)
		}
		return types.NumberValue(number), nil
	case map[string]any:
		attributes, kinds := map[string]attr.Value{}, map[string]attr.Type{}
		for name, field := range value {
			if field == nil {
				continue
			}
			converted, err := HCLValue(field)
			if err != nil {
				return nil, err
			}
			attributes[name], kinds[name] = converted, converted.Type(context.Background())
		}
		return types.ObjectValueMust(kinds, attributes), nil
	case []any:
		list, kinds := []attr.Value{}, []attr.Type{}
		for _, element := range value {
			converted, err := HCLValue(element)
			if err != nil {
				return nil, err
			}
			list, kinds = append(list, converted), append(kinds, converted.Type(context.Background()))
		}
		return types.TupleValueMust(kinds, list), nil
	default:
		return nil, fmt.Errorf("a %T has no form in HCL", value)
	}
}

// isNull reports whether a dynamic value is null, with a type or without.
func isNull(value types.Dynamic) bool { return value.IsNull() || value.IsUnderlyingValueNull() }

// hasSecret reports whether a value is, or has in it, a Secret with values. It
// sees through what is unknown beside them.
func hasSecret(value attr.Value) bool {
	if dynamic, ok := value.(types.Dynamic); ok {
		value = dynamic.UnderlyingValue()
	}
	var fields map[string]attr.Value
	switch value := value.(type) {
	case types.Object:
		fields = value.Attributes()
	case types.Map:
		fields = value.Elements()
	case attribute.Elements:
		return slices.ContainsFunc(value.Elements(), hasSecret)
	default:
		return false
	}
	is := func(name, want string) bool {
		text, ok := fields[name].(types.String)
		return ok && text.ValueString() == want
	}
	set := func(name string) bool { return fields[name] != nil && !fields[name].IsNull() }
	if is("apiVersion", "v1") && is("kind", "Secret") && (set("data") || set("stringData")) {
		return true
	}
	for _, field := range fields {
		if hasSecret(field) {
			return true
		}
	}
	return false
}

// hclObjects is the value of objects that has these manifests.
func hclObjects(objects []Object) (types.Dynamic, error) {
	list := []any{}
	for _, object := range objects {
		value, err := object.Value()
		if err != nil {
			return types.DynamicNull(), err
		}
		list = append(list, value)
	}
	value, err := HCLValue(list)
	if err != nil {
		return types.DynamicNull(), fmt.Errorf("write the objects in HCL: %w", err)
	}
	return types.DynamicValue(value), nil
}
