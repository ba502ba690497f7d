package embedded

import (
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// dynamic is a configuration on the wire. Attributes that are left out are null.
func dynamic(kind tftypes.Type, config map[string]any) (*tfprotov6.DynamicValue, error) {
	value, err := valueOf(kind, config, "")
	if err != nil {
		return nil, err
	}
	encoded, err := tfprotov6.NewDynamicValue(kind, value)
	if err != nil {
		return nil, fmt.Errorf("encode the configuration: %w", err)
	}
	return &encoded, nil
}

// valueOf makes a Terraform value of a Go one: nil, string, bool, a number, a
// slice, or a map by string. at is its path, for errors.
func valueOf(kind tftypes.Type, in any, at string) (tftypes.Value, error) {
	if in == nil {
		return tftypes.NewValue(kind, nil), nil
	}
	switch kind := kind.(type) {
	case tftypes.Object:
		return objectOf(kind, in, at)
	case tftypes.Map:
		entries, ok := entriesOf(in)
		if !ok {
			return tftypes.Value{}, mismatch(at, "a map", in)
		}
		values := map[string]tftypes.Value{}
		for key, entry := range entries {
			value, err := valueOf(kind.ElementType, entry, at+"["+key+"]")
			if err != nil {
				return tftypes.Value{}, err
			}
			values[key] = value
		}
		return tftypes.NewValue(kind, values), nil
	case tftypes.List:
		return elementsOf(kind, kind.ElementType, in, at)
	case tftypes.Set:
		return elementsOf(kind, kind.ElementType, in, at)
	}
	return primitiveOf(kind, in, at)
}

func objectOf(kind tftypes.Object, in any, at string) (tftypes.Value, error) {
	entries, ok := entriesOf(in)
	if !ok {
		return tftypes.Value{}, mismatch(at, "an object", in)
	}
	for key := range entries {
		if _, known := kind.AttributeTypes[key]; !known {
			return tftypes.Value{}, fmt.Errorf("there is no attribute %q: there are %s", join(at, key),
				strings.Join(slices.Sorted(maps.Keys(kind.AttributeTypes)),
					", "))
		}
	}
	values := map[string]tftypes.Value{}
	for name, attribute := range kind.AttributeTypes {
		value, err := valueOf(attribute, entries[name], join(at, name))
		if err != nil {
			return tftypes.Value{}, err
		}
		values[name] = value
	}
	return tftypes.NewValue(kind, values), nil
}

func elementsOf(kind, element tftypes.Type, in any, at string) (tftypes.Value, error) {
	var elements []any
	switch in := in.(type) {
	case []any:
		elements = in
	case []string:
		for _, text := range in {
			elements = append(elements, text)
		}
	default:
		return tftypes.Value{}, mismatch(at, "a list", in)
	}
	values := []tftypes.Value{}
	for i, one := range elements {
		value, err := valueOf(element, one, fmt.Sprintf("%s[%d]", at, i))
		if err != nil {
			return tftypes.Value{}, err
		}
		values = append(values, value)
	}
	return tftypes.NewValue(kind, values), nil
}

func primitiveOf(kind tftypes.Type, in any, at string) (tftypes.Value, error) {
	switch {
	case kind.Is(tftypes.String):
		if text, ok := in.(string); ok {
			return tftypes.NewValue(kind, text), nil
		}
		return tftypes.Value{}, mismatch(at, "a text", in)
	case kind.Is(tftypes.Bool):
		if truth, ok := in.(bool); ok {
			return tftypes.NewValue(kind, truth), nil
		}
		return tftypes.Value{}, mismatch(at, "true or false", in)
	case kind.Is(tftypes.Number):
		switch number := in.(type) {
		case int:
			return tftypes.NewValue(kind, big.NewFloat(float64(number))), nil
		case int64:
			return tftypes.NewValue(kind, new(big.Float).SetInt64(number)), nil
		case float64:
			return tftypes.NewValue(kind, big.NewFloat(number)), nil
		}
		return tftypes.Value{}, mismatch(at, "a number", in)
	}
	return tftypes.Value{}, fmt.Errorf("%s: values of the type %s can't be set from here", at, kind)
}

// entriesOf are those of a map.
func entriesOf(in any) (map[string]any, bool) {
	switch in := in.(type) {
	case map[string]any:
		return in, true
	case map[string]string:
		entries := map[string]any{}
		for key, text := range in {
			entries[key] = text
		}
		return entries, true
	}
	return nil, false
}

func join(at, name string) string {
	if at == "" {
		return name
	}
	return at + "." + name
}

func mismatch(at, wanted string, in any) error {
	return fmt.Errorf("the value of %s has to be %s, and is a %T", at, wanted, in)
}
