package workload

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/muster-fleet/terraform-provider-muster/internal/suggest"
)

// decoder compares a value in JSON's terms with a Go type of the API, as strict
// decoding does, and goes on after a problem.
type decoder struct{ problems []Problem }

func (d *decoder) wrong(at, want string, value any) {
	text := fmt.Sprintf("has to be %s, and is %s", want, jsonTypeOf(value))
	d.problems = append(d.problems, Problem{Path: at, Text: text, Typed: true})
}

// unread is wrong for what is written as a text, which may be one of another form.
func (d *decoder) unread(at, want string, value any) {
	_, isText := value.(string)
	d.wrong(at, want, value)
	d.problems[len(d.problems)-1].Typed = !isText
}

func (d *decoder) value(at string, value any, want reflect.Type) {
	if value == nil {
		return // As good as absent.
	}
	if d.special(at, value, want) {
		return
	}
	switch want.Kind() {
	case reflect.Pointer:
		d.value(at, value, want.Elem())
	case reflect.Struct:
		d.object(at, value, want)
	case reflect.Map:
		fields, ok := value.(map[string]any)
		if !ok {
			d.wrong(at, "an object", value)
			return
		}
		for key, field := range fields {
			d.value(JoinPath(at, key), field, want.Elem())
		}
	case reflect.Slice:
		list, ok := value.([]any)
		if !ok {
			d.wrong(at, "a list", value)
			return
		}
		for i, element := range list {
			d.value(fmt.Sprintf("%s[%d]", at, i), element, want.Elem())
		}
	case reflect.String:
		if _, ok := value.(string); !ok {
			d.wrong(at, "a text", value)
		}
	case reflect.Bool:
		if _, ok := value.(bool); !ok {
			d.wrong(at, "true or false", value)
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		d.whole(at, value, want)
	case reflect.Float32, reflect.Float64:
		if _, ok := value.(json.Number); !ok {
			d.wrong(at, "a number", value)
		}
	}
}

func (d *decoder) whole(at string, value any, want reflect.Type) {
	number, ok := value.(json.Number)
	if !ok {
		d.wrong(at, "a whole number", value)
		return
	}
	float, err := number.Float64()
	if err != nil || float != float64(int64(float)) {
		d.wrong(at, "a whole number", value)
		return
	}
	bits := want.Bits()
	if limit := float64(uint64(1) << (bits - 1)); bits < 64 && (float >= limit || float < -limit) {
		d.problems = append(d.problems, Problem{Path: at, Text: fmt.Sprintf("has to fit into %d bits", bits)})
	}
}

// special are the types that have a notation of their own.
func (d *decoder) special(at string, value any, want reflect.Type) bool {
	text, isText := value.(string)
	switch want {
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime]():
		if _, err := time.Parse(time.RFC3339, text); err != nil {
			d.unread(at, "a time such as 2026-01-31T12:00:00Z", value)
		}
	case reflect.TypeFor[metav1.Duration]():
		if _, err := time.ParseDuration(text); err != nil {
			d.unread(at, "a duration such as 90s", value)
		}
	case reflect.TypeFor[intstr.IntOrString]():
		if !isText {
			d.whole(at, value, reflect.TypeFor[int32]())
		}
	case reflect.TypeFor[resource.Quantity]():
		if number, ok := value.(json.Number); ok {
			text, isText = number.String(), true
		}
		if _, err := resource.ParseQuantity(text); err != nil || !isText {
			d.unread(at, "a quantity such as 500m or 1Gi", value)
		}
	case reflect.TypeFor[[]byte]():
		if _, err := base64.StdEncoding.DecodeString(text); err != nil || !isText {
			d.unread(at, "base64; text as it is belongs in stringData of a Secret, or data of a ConfigMap", value)
		}
	case reflect.TypeFor[runtime.RawExtension](), reflect.TypeFor[metav1.FieldsV1]():
	default:
		// Types that read themselves may take anything.
		return want.Kind() == reflect.Struct && reflect.PointerTo(want).Implements(reflect.TypeFor[json.Unmarshaler]())
	}
	return true
}

func (d *decoder) object(at string, value any, want reflect.Type) {
	fields, ok := value.(map[string]any)
	if !ok {
		d.wrong(at, "an object", value)
		return
	}
	known := map[string]reflect.Type{}
	structFields(want, known)
	for name, field := range fields {
		kind, found := known[name]
		if found {
			d.value(JoinPath(at, name), field, kind)
			continue
		}
		text := "is unknown, so that clusters drop it"
		if near := suggest.Name(name, slices.Collect(maps.Keys(known))); near != "" {
			text += fmt.Sprintf("; did you mean %s?", near)
		}
		d.problems = append(d.problems, Problem{Path: JoinPath(at, name), Text: text, Unknown: true})
	}
}

// structFields adds the fields of a type by their names in JSON, those of embedded
// types too.
func structFields(t reflect.Type, known map[string]reflect.Type) {
	for field := range t.Fields() {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-" || !field.IsExported():
		case name == "" && (field.Anonymous || strings.Contains(options, "inline")):
			structFields(field.Type, known)
		case name != "":
			known[name] = field.Type
		}
	}
}

// jsonTypeOf is what a value in JSON's terms is. Values themselves may be secret.
func jsonTypeOf(value any) string {
	switch value.(type) {
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	case string:
		return "a text"
	case bool:
		return "true or false"
	case nil:
		return "null"
	default:
		return "a number"
	}
}
