package klusterlet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// reading is what came of attributes that were read.
type reading struct {
	options v1alpha1.AgentOptions
	// unknown are the fields whose values are not known yet.
	unknown []string
	// problems are values that have no place in the API's types.
	problems field.ErrorList
}

// read makes the API's options of attributes. Names of attributes are those of the
// fields with underscores; what is different is handled here by name.
func read(attributes map[string]attr.Value) reading {
	r := reading{}
	fields := map[string]any{}
	for name, value := range attributes {
		if converted := r.field(camel(name), value); converted != nil {
			fields[camel(name)] = converted
		}
	}
	if names, ok := fields["imagePullSecrets"].([]any); ok {
		for i, name := range names {
			names[i] = map[string]any{"name": name}
		}
	}
	if env, ok := fields["env"].(map[string]any); ok {
		list := []any{}
		for _, name := range slices.Sorted(maps.Keys(env)) {
			list = append(list, map[string]any{"name": name, "value": env[name]})
		}
		fields["env"] = list
	}
	if resources, ok := fields["resources"].(map[string]any); ok {
		r.dropNoQuantities(resources)
	}
	for name, value := range fields {
		one, err := json.Marshal(map[string]any{name: value})
		if err == nil {
			err = json.Unmarshal(one, &r.options)
		}
		if err != nil {
			r.problems = append(r.problems, field.Invalid(field.NewPath(name), "", "it has no place in "+
				"the API: "+err.Error()))
		}
	}
	return r
}

// dropNoQuantities takes what is no quantity out of an agent's resources.
func (r *reading) dropNoQuantities(resources map[string]any) {
	for kind, list := range resources {
		list, ok := list.(map[string]any)
		if !ok {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(list)) {
			quantity, _ := list[name].(string)
			if _, err := resource.ParseQuantity(quantity); err != nil {
				at := field.NewPath("resources", kind).Key(name)
				r.problems = append(r.problems, field.Invalid(at, quantity, "it is no quantity; write it as in 100m, "+
					"0.5, 128Mi or 1Gi"))
				delete(list, name)
			}
		}
	}
}

// field is a value in JSON's terms; nil when it is not set or not known.
func (r *reading) field(at string, value attr.Value) any {
	if value.IsUnknown() {
		r.unknown = append(r.unknown, at)
	}
	if value.IsNull() || value.IsUnknown() {
		return nil
	}
	switch value := value.(type) {
	case types.String:
		return value.ValueString()
	case types.Bool:
		return value.ValueBool()
	case types.Int64:
		return value.ValueInt64()
	case types.Object:
		fields := map[string]any{}
		for name, value := range value.Attributes() {
			if converted := r.field(at+"."+camel(name), value); converted != nil {
				fields[camel(name)] = converted
			}
		}
		return fields
	case types.Map:
		entries := map[string]any{}
		for key, value := range value.Elements() {
			if converted := r.field(at+"["+key+"]", value); converted != nil {
				entries[key] = converted
			}
		}
		return entries
	case types.List:
		list := []any{}
		for i, element := range value.Elements() {
			converted := r.field(fmt.Sprintf("%s[%d]", at, i), element)
			if _, isText := element.(types.String); isText && converted == nil {
				converted = ""
			}
			list = append(list, converted)
		}
		return list
	}
	return nil
}

// camel is the API's name of an attribute.
func camel(name string) string {
	words := strings.Split(name, "_")
	for i, word := range words[1:] {
		words[i+1] = attribute.Capitalize(word)
	}
	return strings.Join(words, "")
}

// valuesOf are attributes of some types that say what options say.
func valuesOf(o v1alpha1.AgentOptions, of map[string]attr.Type) map[string]attr.Value {
	raw, _ := json.Marshal(o) // the API's own types
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	fields := map[string]any{}
	_ = decoder.Decode(&fields)
	if o.Env != nil {
		env := map[string]any{}
		for _, variable := range o.Env {
			env[variable.Name] = variable.Value
		}
		fields["env"] = env
	}
	if o.ImagePullSecrets != nil {
		var names []any
		for _, secret := range o.ImagePullSecrets {
			names = append(names, secret.Name)
		}
		fields["imagePullSecrets"] = names
	}
	values := map[string]attr.Value{}
	for name, t := range of {
		values[name], _ = fromAPI.decode(name, t, fields[camel(name)])
	}
	return values
}
