package workload

import (
	"encoding/json"
	"errors"
	"math/big"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
)

func number(text string) types.Number {
	value, _, err := big.ParseFloat(text, 10, 512, big.ToNearestEven)
	if err != nil {
		panic(err)
	}
	return types.NumberValue(value)
}

func object(fields map[string]attr.Value) types.Object {
	kinds := map[string]attr.Type{}
	for name, value := range fields {
		kinds[name] = value.Type(nil) //nolint:staticcheck // types take no notice of it
	}
	return types.ObjectValueMust(kinds, fields)
}

func tuple(list ...attr.Value) types.Tuple {
	kinds := []attr.Type{}
	for _, value := range list {
		kinds = append(kinds, value.Type(nil)) //nolint:staticcheck // as above
	}
	return types.TupleValueMust(kinds, list)
}

func TestHCLInJSON(t *testing.T) {
	for name, test := range map[string]struct {
		value attr.Value
		want  string
	}{
		"text":           {types.StringValue("1"), `"1"`},
		"whole number":   {number("1.0"), `1`},
		"large number":   {number("9007199254740993"), `9007199254740993`},
		"fraction":       {number("0.1"), `0.1`},
		"third":          {types.NumberValue(new(big.Float).SetPrec(512).Quo(big.NewFloat(1), big.NewFloat(3))), `0.3333333333333333`},
		"truth":          {types.BoolValue(false), `false`},
		"object":         {object(map[string]attr.Value{"b": types.StringValue("x"), "a": types.BoolValue(true)}), `{"a":true,"b":"x"}`},
		"null attribute": {object(map[string]attr.Value{"a": types.StringNull(), "b": types.DynamicNull()}), `{}`},
		"map":            {attribute.StringMapValue(map[string]string{"a": "b"}), `{"a":"b"}`},
		"tuple":          {tuple(types.StringValue("x"), number("2")), `["x",2]`},
		"null in tuple":  {tuple(types.StringNull()), `[null]`},
		"list":           {attribute.StringListValue([]string{"x"}), `["x"]`},
		"set":            {attribute.StringSetValue([]string{"x"}), `["x"]`},
		"dynamic":        {types.DynamicValue(types.StringValue("x")), `"x"`},
		"null":           {types.StringNull(), `null`},
	} {
		t.Run(name, func(t *testing.T) {
			value, err := JSONValue(test.value)
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(value)
			if err != nil || string(got) != test.want {
				t.Errorf("got %s, %v, want %s", got, err, test.want)
			}
		})
	}
}

func TestWhatIsUnknownInsideMakesTheWholeUnknown(t *testing.T) {
	for name, value := range map[string]attr.Value{
		"text":             types.StringUnknown(),
		"in an object":     object(map[string]attr.Value{"a": types.StringUnknown()}),
		"in a tuple":       tuple(types.StringValue("x"), types.StringUnknown()),
		"in a dynamic":     types.DynamicValue(types.BoolUnknown()),
		"unknown list":     types.ListUnknown(types.StringType),
		"unknown any":      types.DynamicUnknown(),
		"deep in the tree": object(map[string]attr.Value{"a": tuple(object(map[string]attr.Value{"b": types.NumberUnknown()}))}),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := JSONValue(value); !errors.Is(err, ErrUnknown) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// What the hub has becomes HCL that means the same, and can be compared with
// what the configuration has.
func TestJSONInHCLAndBack(t *testing.T) {
	const text = `{"apiVersion":"v1","kind":"X","metadata":{"name":"x"},"spec":{"big":9007199254740993,"deep":[[{"a":null}],null,[]],"empty":{},"half":0.5,"on":true,"text":"1"}}`
	objects, err := ParseYAML(text)
	if err != nil {
		t.Fatal(err)
	}
	value, err := hclObjects(objects)
	if err != nil {
		t.Fatal(err)
	}
	back, err := Content{Objects: value}.of("objects")
	if err != nil {
		t.Fatal(err)
	}
	if !EqualObjects(objects, back) || !strings.Contains(string(back[0].JSON), "9007199254740993") {
		t.Errorf("got %s, want %s", back[0].JSON, text)
	}
}

func TestWhatIsNoListOfObjectsIsExplained(t *testing.T) {
	x := object(map[string]attr.Value{"apiVersion": types.StringValue("v1"), "kind": types.StringValue("X"), "metadata": object(map[string]attr.Value{"name": types.StringValue("x")})})
	for name, test := range map[string]struct {
		value attr.Value
		want  string
	}{
		"a single object": {x, "objects: it is an object and not a list of objects; put a single object in brackets"},
		"a text":          {types.StringValue("x"), "objects: it is a text and not a list"},
		"texts":           {tuple(x, types.StringValue("x")), "objects[1]: it is a text and not an object"},
		"null":            {tuple(types.StringNull()), "objects[0]: it is null and not an object"},
		"no kind":         {tuple(object(map[string]attr.Value{"apiVersion": types.StringValue("v1")})), "objects[0]: it has no kind"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Content{Objects: types.DynamicValue(test.value)}.of("objects")
			if err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}
