package inprocess

import (
	"encoding/base64"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/ext/tryfunc"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
	ctyjson "github.com/zclconf/go-cty/cty/json"
	"sigs.k8s.io/yaml"
)

// mark is what a value is marked with.
type mark string

// sensitive is the mark of what is not shown.
const sensitive = mark("sensitive")

// functions are those of Terraform that tests use. Others are missing: add them here.
func functions() map[string]function.Function {
	return map[string]function.Function{
		"base64decode": textFunction(func(in string) (string, error) {
			out, err := base64.StdEncoding.DecodeString(in)
			return string(out), err
		}),
		"base64encode": textFunction(func(in string) (string, error) {
			return base64.StdEncoding.EncodeToString([]byte(in)), nil
		}),
		"can":      tryfunc.CanFunc,
		"concat":   stdlib.ConcatFunc,
		"contains": stdlib.ContainsFunc,
		"distinct": stdlib.DistinctFunc,
		"element":  stdlib.ElementFunc,
		"file": textFunction(func(path string) (string, error) {
			raw, err := os.ReadFile(path)
			return string(raw), err
		}),
		"flatten":      stdlib.FlattenFunc,
		"format":       stdlib.FormatFunc,
		"join":         stdlib.JoinFunc,
		"jsondecode":   stdlib.JSONDecodeFunc,
		"jsonencode":   stdlib.JSONEncodeFunc,
		"keys":         stdlib.KeysFunc,
		"length":       length,
		"lookup":       stdlib.LookupFunc,
		"lower":        stdlib.LowerFunc,
		"merge":        stdlib.MergeFunc,
		"nonsensitive": sensitivity(false),
		"one":          one,
		"range":        stdlib.RangeFunc,
		"replace":      stdlib.ReplaceFunc,
		"sensitive":    sensitivity(true),
		"sort":         stdlib.SortFunc,
		"split":        stdlib.SplitFunc,
		"tolist":       stdlib.MakeToFunc(cty.List(cty.DynamicPseudoType)),
		"tomap":        stdlib.MakeToFunc(cty.Map(cty.DynamicPseudoType)),
		"tonumber":     stdlib.MakeToFunc(cty.Number),
		"toset":        stdlib.MakeToFunc(cty.Set(cty.DynamicPseudoType)),
		"tostring":     stdlib.MakeToFunc(cty.String),
		"trimspace":    stdlib.TrimSpaceFunc,
		"try":          tryfunc.TryFunc,
		"upper":        stdlib.UpperFunc,
		"values":       stdlib.ValuesFunc,
		"yamldecode":   yamldecode,
		"yamlencode":   yamlencode,
	}
}

func textFunction(do func(string) (string, error)) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "in", Type: cty.String}},
		Type:   function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			out, err := do(args[0].AsString())
			return cty.StringVal(out), err
		},
	})
}

var anything = function.Parameter{
	Name: "value", Type: cty.DynamicPseudoType,
	AllowNull: true, AllowUnknown: true, AllowDynamicType: true, AllowMarked: true,
}

func sameType(args []cty.Value) (cty.Type, error) { return args[0].Type(), nil }

func sensitivity(on bool) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{anything}, Type: sameType,
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			value, marks := args[0].Unmark()
			delete(marks, sensitive)
			if on {
				return value.Mark(sensitive).WithMarks(marks), nil
			}
			return value.WithMarks(marks), nil
		},
	})
}

// length is also that of a text.
var length = function.New(&function.Spec{
	Params: []function.Parameter{{
		Name: "value", Type: cty.DynamicPseudoType, AllowDynamicType: true, AllowUnknown: true,
	}},
	Type: function.StaticReturnType(cty.Number),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		switch in := args[0]; {
		case in.Type() == cty.DynamicPseudoType:
			return cty.UnknownVal(cty.Number), nil
		case in.Type().IsTupleType():
			return cty.NumberIntVal(int64(len(in.Type().TupleElementTypes()))), nil
		case in.Type().IsObjectType():
			return cty.NumberIntVal(int64(len(in.Type().AttributeTypes()))), nil
		case in.Type() == cty.String:
			return stdlib.Strlen(in)
		default:
			return in.Length(), nil
		}
	},
})

// one is the only element of a collection, or null.
var one = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "list", Type: cty.DynamicPseudoType}},
	Type: func(args []cty.Value) (cty.Type, error) {
		elements := args[0].AsValueSlice()
		switch {
		case len(elements) > 1:
			return cty.NilType, function.NewArgErrorf(0,
				"must be a list, set, or tuple value with either zero or one elements")
		case len(elements) == 1:
			return elements[0].Type(), nil
		case args[0].Type().IsCollectionType():
			return args[0].Type().ElementType(), nil
		}
		return cty.DynamicPseudoType, nil
	},
	Impl: func(args []cty.Value, kind cty.Type) (cty.Value, error) {
		if elements := args[0].AsValueSlice(); len(elements) == 1 {
			return elements[0], nil
		}
		return cty.NullVal(kind), nil
	},
})

var yamlencode = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "value", Type: cty.DynamicPseudoType, AllowNull: true}},
	Type:   function.StaticReturnType(cty.String),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		if !args[0].IsWhollyKnown() {
			return cty.UnknownVal(cty.String), nil
		}
		asJSON, err := ctyjson.Marshal(args[0], args[0].Type())
		if err != nil {
			return cty.NilVal, err
		}
		out, err := yaml.JSONToYAML(asJSON)
		return cty.StringVal(string(out)), err
	},
})

var yamldecode = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "src", Type: cty.String}},
	Type: func(args []cty.Value) (cty.Type, error) {
		if !args[0].IsKnown() {
			return cty.DynamicPseudoType, nil
		}
		asJSON, err := yaml.YAMLToJSON([]byte(args[0].AsString()))
		if err != nil {
			return cty.NilType, err
		}
		return ctyjson.ImpliedType(asJSON)
	},
	Impl: func(args []cty.Value, kind cty.Type) (cty.Value, error) {
		asJSON, err := yaml.YAMLToJSON([]byte(args[0].AsString()))
		if err != nil {
			return cty.NilVal, err
		}
		return ctyjson.Unmarshal(asJSON, kind)
	},
})

// keyText is how an index looks in an address.
func keyText(key cty.Value) string {
	switch {
	case key == cty.NilVal:
		return ""
	case key.Type() == cty.Number:
		text, err := convert.Convert(key, cty.String)
		if err != nil {
			return ""
		}
		return "[" + text.AsString() + "]"
	}
	return `["` + strings.ReplaceAll(key.AsString(), `"`, `\"`) + `"]`
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
