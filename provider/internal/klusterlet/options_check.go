package klusterlet

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/muster-fleet/terraform-provider-muster/internal/klusterlet"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
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
	problems := klusterlet.Validate(AgentOptionsOf(values), nil)
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
			return place.AtMapKey(AgentOptionsOf(values).Env[index].Name)
		case first == "image_pull_secrets": // names, and not objects
			return place.AtListIndex(index)
		default:
			place = place.AtListIndex(index)
		}
	}
	return place
}
