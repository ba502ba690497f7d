package placement

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-fleet/terraform-provider-muster/internal/suggest"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// What is wrong with an expression on every cluster. The scheduler would not tell: an
// expression that fails on a cluster, or whose value is no truth value, does not
// select it.

// expressionProblem says why an expression can't select any cluster; empty for one
// that can, and for one that can't be compiled.
func expressionProblem(text string) string {
	reads, ok := readsOf(text)
	if !ok {
		return ""
	}
	for _, fields := range reads.fields {
		if problem := missingField(fields); problem != "" {
			return problem
		}
	}
	what := reads.kind
	if at := clusterField(reads.value); len(reads.value) > 0 && at != nil {
		what = typeName(at)
	}
	if what == "bool" || what == dynamic {
		return ""
	}
	return fmt.Sprintf("its value is always of the type %s, and only true selects a cluster: compare it with something, "+
		"as in %s", what, comparison(text, what))
}

func comparison(text, what string) string {
	if what == "string" {
		return text + ` == "…"`
	}
	return text + " == …"
}

// missingField says which field of a path a managed cluster does not have; empty
// where it has them all.
func missingField(fields []string) string {
	for i := range fields {
		if clusterField(fields[:i+1]) != nil {
			continue
		}
		owner := strings.Join(append([]string{clusterVariable}, fields[:i]...), ".")
		known := fieldNames(clusterField(fields[:i]))
		hint := "it has " + strings.Join(known, ", ")
		if near := suggest.Name(fields[i], known); near != "" {
			hint = fmt.Sprintf("did you mean %s?", near)
		}
		return fmt.Sprintf("%s has no field %s: %s (A field of a later version of the API can be read behind "+
			"has(%[1]s.%[2]s).)", owner, fields[i], hint)
	}
	return ""
}

// anything is the type of what has no fields of its own to check: the keys of
// maps, and what is not a struct.
var anything = reflect.TypeFor[any]()

// clusterField is the type of a field of a managed cluster; nil when there is none.
func clusterField(fields []string) reflect.Type {
	at := reflect.TypeFor[clusterv1.ManagedCluster]()
	for _, name := range fields {
		at = plain(at)
		switch {
		case at.Kind() == reflect.Map:
			at = at.Elem()
		case at.Kind() != reflect.Struct || isText(at):
			return anything
		default:
			next, ok := jsonFields(at)[name]
			if !ok {
				return nil
			}
			at = next
		}
	}
	return plain(at)
}

func plain(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

// isText reports whether a struct is not an object in JSON, such as a time.
func isText(t reflect.Type) bool {
	_, ok := reflect.PointerTo(t).MethodByName("MarshalJSON")
	return ok
}

// jsonFields are the fields of a struct by their names in JSON.
func jsonFields(t reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case strings.Contains(options, "inline"):
			for name, of := range jsonFields(f.Type) {
				fields[name] = of
			}
		case name != "" && name != "-":
			fields[name] = f.Type
		}
	}
	return fields
}

func fieldNames(t reflect.Type) []string {
	var names []string
	for name := range jsonFields(t) {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// typeName is a type in CEL's words; dyn for what only an evaluation tells.
func typeName(t reflect.Type) string {
	switch {
	case t == anything || t == reflect.TypeFor[runtime.RawExtension]():
		return dynamic
	case t.Kind() == reflect.Bool:
		return "bool"
	case t.Kind() == reflect.String || t.Kind() == reflect.Struct && isText(t):
		return "string"
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return "string"
	case t.Kind() == reflect.Slice:
		return "list"
	case t.Kind() == reflect.Map, t.Kind() == reflect.Struct:
		return "map"
	}
	return "int"
}
