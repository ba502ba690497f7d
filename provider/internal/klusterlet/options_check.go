package klusterlet

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/muster-fleet/terraform-provider-muster/internal/klusterlet"
)

// CheckAgentConfig refuses options that no agent can have, in a resource with Attributes.
// What is not known yet is not missing.
func CheckAgentConfig(ctx context.Context, config tfsdk.Config, diags *diag.Diagnostics) {
	attributes := map[string]attr.Value{}
	for _, name := range AgentOptionNames() {
		var value attr.Value
		diags.Append(config.GetAttribute(ctx, path.Root(name), &value)...)
		attributes[name] = value
	}
	if !diags.HasError() {
		CheckAgentOptions(attributes, path.Empty(), diags)
	}
}

// CheckAgentOptions refuses options that no agent can have. attributes are values by the names of
// Attributes, below a path.
func CheckAgentOptions(attributes map[string]attr.Value, below path.Path, diags *diag.Diagnostics) {
	for _, problem := range problemsOf(attributes) {
		place := placeOf(problem.Field, attributes, below)
		diags.AddAttributeError(place, "Invalid "+snake(firstName(problem.Field)),
			fmt.Sprintf("%s: %s.", place, strings.TrimSuffix(problem.ErrorBody(), ".")))
	}
}

// problemsOf lists what is wrong with options.
func problemsOf(attributes map[string]attr.Value) field.ErrorList {
	r := read(attributes)
	problems := r.problems
	for _, problem := range klusterlet.Validate(r.options, nil) {
		if !r.mayChange(problem.Field) {
			problems = append(problems, problem)
		}
	}
	return problems
}

// mayChange reports whether a problem of a field may go away when what is unknown
// beside it or in it is known.
func (r reading) mayChange(at string) bool {
	beside := at
	if end := strings.LastIndexAny(at, "."); end >= 0 {
		beside = at[:end]
	}
	for _, unknown := range r.unknown {
		if within(unknown, beside) || within(at, unknown) {
			return true
		}
	}
	return false
}

// within reports whether one field is another, or in it.
func within(inner, outer string) bool {
	rest, ok := strings.CutPrefix(inner, outer)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

func firstName(at string) string {
	if end := strings.IndexAny(at, ".["); end >= 0 {
		return at[:end]
	}
	return at
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
func placeOf(at string, attributes map[string]attr.Value, below path.Path) path.Path {
	steps := fieldSteps.FindAllString(at, -1)
	first, place := snake(steps[0]), below.AtName(snake(steps[0]))
	for _, step := range steps[1:] {
		key, isKey := strings.CutPrefix(strings.TrimSuffix(step, "]"), "[")
		index, err := strconv.Atoi(key)
		switch {
		case !isKey:
			place = place.AtName(snake(step))
		case err != nil || first == "labels":
			place = place.AtMapKey(key)
		case first == "env": // by name, and not in a list
			if env := read(attributes).options.Env; index < len(env) {
				place = place.AtMapKey(env[index].Name)
			}
			return place
		case first == "image_pull_secrets": // names, and not objects
			return place.AtListIndex(index)
		default:
			place = place.AtListIndex(index)
		}
	}
	return place
}
