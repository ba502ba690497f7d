package klusterlet

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/muster-fleet/terraform-provider-muster/internal/klusterlet"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// CheckAgentOptions refuses options that no agent can have. values are some attributes of
// AgentTable, below a path. What is not known yet is not missing.
func CheckAgentOptions(values attribute.Values, below path.Path, diags *diag.Diagnostics) {
	for _, problem := range problemsOf(values) {
		place := placeOf(problem.Field, values, below)
		name, _, _ := strings.Cut(problem.Field, ".")
		name, _, _ = strings.Cut(name, "[")
		diags.AddAttributeError(place, "Invalid "+snake(name),
			fmt.Sprintf("%s: %s.", place, strings.TrimSuffix(problem.ErrorBody(), ".")))
	}
}

// problemsOf lists what is wrong with options, without those that are not wholly known.
func problemsOf(values attribute.Values) field.ErrorList {
	problems := klusterlet.Validate(optionsOf(values), nil)
	resources, _ := values["resources"].(types.Object)
	for kind, list := range resources.Attributes() {
		quantities, _ := list.(types.Map)
		for name, text := range entries(quantities) {
			if _, err := resource.ParseQuantity(text); err != nil {
				problems = append(problems, field.Invalid(field.NewPath("resources", kind).Key(name), text,
					"it is no quantity; write it as in 100m, 0.5, 128Mi or 1Gi"))
			}
		}
	}
	return slices.DeleteFunc(problems, func(problem *field.Error) bool {
		value := values[snake(fieldSteps.FindString(problem.Field))]
		return value != nil && !attribute.Known(value)
	})
}

// snake is the attribute of one of the API's fields.
func snake(name string) string {
	var b strings.Builder
	for _, r := range name {
		if unicode.IsUpper(r) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// fieldSteps are the parts of one of the API's fields: names, and keys in brackets.
var fieldSteps = regexp.MustCompile(`\[[^\]]*\]|[^.\[]+`)

// placeOf is where in the configuration one of the API's fields is.
func placeOf(at string, values attribute.Values, below path.Path) path.Path {
	steps := fieldSteps.FindAllString(at, -1)
	first := snake(steps[0])
	place := below.AtName(first)
	for _, step := range steps[1:] {
		key, isKey := strings.CutPrefix(strings.TrimSuffix(step, "]"), "[")
		index, err := strconv.Atoi(key)
		switch {
		case !isKey:
			place = place.AtName(snake(step))
		case err != nil || first == "labels":
			place = place.AtMapKey(key)
		case first == "env": // by name, and not in a list
			return place.AtMapKey(optionsOf(values).Env[index].Name)
		case first == "image_pull_secrets": // names, and not objects
			return place.AtListIndex(index)
		default:
			place = place.AtListIndex(index)
		}
	}
	return place
}

// DecodeAgentOptions makes options of values in JSON's terms, named as in AgentTable, and
// checks them. Errors name the attribute. It is for functions, whose arguments have no
// schema.
func DecodeAgentOptions(given map[string]any) (v1alpha1.AgentOptions, error) {
	values, kinds := attribute.Values{}, AgentTable().Types()
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		var err error
		if values[name], err = decode(name, kinds[name], given[name]); err != nil {
			return v1alpha1.AgentOptions{}, err
		}
	}
	if problems := problemsOf(values); len(problems) > 0 {
		at := placeOf(problems[0].Field, values, path.Empty())
		return v1alpha1.AgentOptions{}, fmt.Errorf("%s: %s", at, problems[0].ErrorBody())
	}
	return optionsOf(values), nil
}

// decode is a value in JSON's terms as one of Terraform's, as Terraform converts
// values for a resource.
func decode(at string, t attr.Type, given any) (attr.Value, error) {
	if given == nil {
		return attribute.Null(t), nil
	}
	fields, isMap := given.(map[string]any)
	list, isList := given.([]any)
	text := fmt.Sprint(given)
	switch t := t.(type) {
	case types.ObjectType:
		if !isMap {
			return nil, fmt.Errorf("%s has to be an object", at)
		}
		values, names := attribute.Values{}, slices.Sorted(maps.Keys(t.AttrTypes))
		for name := range fields {
			if t.AttrTypes[name] == nil {
				return nil, fmt.Errorf("%s has no attribute %s; its attributes are %s",
					at, name, strings.Join(names, ", "))
			}
		}
		for _, name := range names {
			value, err := decode(at+"."+name, t.AttrTypes[name], fields[name])
			if err != nil {
				return nil, err
			}
			values[name] = value
		}
		return types.ObjectValueMust(t.AttrTypes, values), nil
	case types.MapType:
		if !isMap {
			return nil, fmt.Errorf("%s has to be a map", at)
		}
		values := attribute.Values{}
		for key, entry := range fields {
			value, err := decode(fmt.Sprintf("%s[%q]", at, key), t.ElemType, entry)
			if err != nil {
				return nil, err
			}
			values[key] = value
		}
		return types.MapValueMust(t.ElemType, values), nil
	case types.ListType:
		if !isList {
			return nil, fmt.Errorf("%s has to be a list", at)
		}
		values := []attr.Value{}
		for i, element := range list {
			value, err := decode(fmt.Sprintf("%s[%d]", at, i), t.ElemType, element)
			if err != nil {
				return nil, err
			}
			values = append(values, value)
		}
		return types.ListValueMust(t.ElemType, values), nil
	case basetypes.BoolType:
		flag, err := strconv.ParseBool(text)
		if err != nil {
			return nil, fmt.Errorf("%s has to be true or false", at)
		}
		return types.BoolValue(flag), nil
	case basetypes.Int64Type:
		number, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s has to be a whole number", at)
		}
		return types.Int64Value(number), nil
	}
	switch {
	case isList:
		return nil, fmt.Errorf("%s has to be a text, and is a list", at)
	case isMap:
		return nil, fmt.Errorf("%s has to be a text, and is a map", at)
	}
	return types.StringValue(text), nil
}
