package function

import (
	"context"
	"reflect"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/klusterlet"
)

// attributeErrorsOf calls attribute_errors. The second result is that of a call that
// fails.
func attributeErrorsOf(t *testing.T, shape, argument types.Dynamic) (types.List, string) {
	t.Helper()
	f := NewAttributeErrors(func(context.Context) []func() resource.Resource {
		return []func() resource.Resource{klusterlet.New}
	})()
	resp := function.RunResponse{Result: function.NewResultData(types.ListUnknown(types.StringType))}
	f.Run(t.Context(), function.RunRequest{Arguments: function.NewArgumentsData([]attr.Value{shape, argument})}, &resp)
	if resp.Error != nil {
		return types.List{}, resp.Error.Error()
	}
	list, ok := resp.Result.Value().(types.List)
	if !ok {
		t.Fatalf("the result is %v", resp.Result.Value())
	}
	return list, ""
}

func TestAttributeErrors(t *testing.T) {
	const entry = `{"connection": "muster_klusterlet.cluster_connection", "tolerations": "muster_klusterlet.tolerations", "more": {"wait": "bool", "n": "number", "x": "any"}, "list": ["string"], "labels": {"*": "string"}}`
	for name, test := range map[string]struct {
		shape, value string
		want         []string // the beginnings of the sentences
	}{
		"nothing":                 {entry, `{}`, nil},
		"null":                    {entry, `null`, nil},
		"nulls":                   {entry, `{"connection": null, "labels": null, "more": {"wait": null}}`, nil},
		"all is right":            {entry, `{"connection": {"host": "h", "exec": {"args": ["a"]}}, "tolerations": [{"key": "a"}, {"effect": "b", "value": "c"}], "more": {"wait": true, "n": "1.5", "x": [{}]}, "list": ["a", 1], "labels": {"a/b": "c"}}`, nil},
		"misspelt":                {entry, `{"connnection": {}}`, []string{"connnection: there is no such attribute. Did you mean connection?"}},
		"like no other":           {entry, `{"whatever": 1}`, []string{"whatever: there is no such attribute. There are: connection, labels, list, more, tolerations."}},
		"nested in a resource's":  {entry, `{"connection": {"exec": {"arg": []}}, "tolerations": [{}, {"keys": "a"}]}`, []string{"connection.exec.arg: there is no such attribute. Did you mean args?", "tolerations[1].keys: "}},
		"nested in the shape":     {entry, `{"more": {"waitt": true}}`, []string{"more.waitt: "}},
		"any has what it wants":   {`"any"`, `{"a": [1, {"b": null}]}`, nil},
		"not an object":           {entry, `"x"`, []string{"the value: this has to be an object, and is a text"}},
		"a list in place of more": {entry, `{"more": []}`, []string{"more: this has to be an object, and is a list"}},
		"an object for a list":    {entry, `{"list": {}, "tolerations": {"key": "a"}}`, []string{"list: this has to be a list, and is an object", "tolerations: this has to be a list"}},
		"a text for a map":        {entry, `{"labels": "a"}`, []string{"labels: this has to be a map, and is a text"}},
		"a list for a text":       {entry, `{"list": [["a"]], "labels": {"a/b": {}}}`, []string{`labels["a/b"]: this has to be a text, and is an object`, "list[0]: this has to be a text, and is a list"}},
		"no number, no bool":      {entry, `{"more": {"wait": "yes", "n": "many"}}`, []string{"more.n: this has to be a number", "more.wait: this has to be true or false"}},
		"entries":                 {`{"*": ` + entry + `}`, `{"rome": {"lists": []}, "a b": {"lists": []}}`, []string{`["a b"].lists: `, "rome.lists: "}},
		"a list of entries":       {`[{"a": "string"}]`, `[{"a": "1"}, {"b": "2"}]`, []string{"[1].b: "}},
	} {
		t.Run(name, func(t *testing.T) {
			list, refused := attributeErrorsOf(t, value(t, test.shape), value(t, test.value))
			var got []string
			list.ElementsAs(t.Context(), &got, false)
			if refused != "" || len(got) != len(test.want) {
				t.Fatalf("got %q, %q", got, refused)
			}
			for i, want := range test.want {
				if !strings.HasPrefix(got[i], want) {
					t.Errorf("got %q, want %q", got[i], want)
				}
			}
		})
	}
}

// A mistake in the shape is the module's.
func TestAttributeErrorsRefusesItsShape(t *testing.T) {
	for shape, want := range map[string]string{
		`"muster_klusterlet.cluster_connnection"`: "muster_klusterlet has no attribute cluster_connnection",
		`"muster_klusterlet.image.tag"`:           "muster_klusterlet has no attribute image.tag",
		`"text"`:                                  `"text" is neither a resource`,
		`[]`:                                      "has one element",
		`{"a": 1}`:                                "a shape is a text",
	} {
		if _, refused := attributeErrorsOf(t, value(t, shape), value(t, `{}`)); !strings.Contains(refused, want) {
			t.Errorf("%s: %q does not say %q", shape, refused, want)
		}
	}
}

// What is wrong is said while something else is unknown, and no more is said to be
// right than is known.
func TestAttributeErrorsOfUnknownValues(t *testing.T) {
	shape := value(t, `{"a": "string", "b": {"c": "string"}}`)
	object := func(values map[string]attr.Value) types.Dynamic {
		kinds := map[string]attr.Type{}
		for name, v := range values {
			kinds[name] = v.Type(t.Context())
		}
		return types.DynamicValue(types.ObjectValueMust(kinds, values))
	}
	for name, test := range map[string]struct {
		value types.Dynamic
		want  types.List
	}{
		"the whole":           {types.DynamicUnknown(), types.ListUnknown(types.StringType)},
		"an attribute":        {object(map[string]attr.Value{"a": types.StringUnknown()}), types.ListUnknown(types.StringType)},
		"of no type":          {object(map[string]attr.Value{"b": types.DynamicUnknown()}), types.ListUnknown(types.StringType)},
		"beside what is null": {object(map[string]attr.Value{"a": types.StringNull(), "b": types.DynamicNull()}), types.ListValueMust(types.StringType, []attr.Value{})},
		"beside a mistake": {object(map[string]attr.Value{"a": types.StringUnknown(), "aa": types.StringUnknown()}),
			types.ListValueMust(types.StringType, []attr.Value{types.StringValue("aa: there is no such attribute. There are: a, b.")})},
	} {
		if got, refused := attributeErrorsOf(t, shape, test.value); refused != "" || !reflect.DeepEqual(got.String(), test.want.String()) {
			t.Errorf("%s: got %s %s, want %s", name, got, refused, test.want)
		}
	}

	entries := value(t, `{"*": {"a": "string"}}`)
	want := `["paris: this is null; an object without attributes is {}"]`
	if got, _ := attributeErrorsOf(t, entries, object(map[string]attr.Value{"paris": types.DynamicNull()})); got.String() != want {
		t.Errorf("an entry that is null: got %s", got)
	}
}
