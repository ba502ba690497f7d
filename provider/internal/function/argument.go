package function

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
)

// Terraform asks for every attribute of an argument that is an object. So arguments
// with optional attributes are of any type, and are read here.

// declared is a function with one argument of Go's type A.
type declared[A any] struct {
	name       string
	definition function.Definition
	// run makes the result. Its error is that of the argument.
	run func(ctx context.Context, argument A) (any, error)
}

// Metadata implements function.Function.
func (f declared[A]) Metadata(_ context.Context, _ function.MetadataRequest, resp *function.MetadataResponse) {
	resp.Name = f.name
}

// Definition implements function.Function.
func (f declared[A]) Definition(_ context.Context, _ function.DefinitionRequest, resp *function.DefinitionResponse) {
	resp.Definition = f.definition
}

// Run implements function.Function.
func (f declared[A]) Run(ctx context.Context, req function.RunRequest, resp *function.RunResponse) {
	var argument A
	if resp.Error = req.Arguments.Get(ctx, &argument); resp.Error != nil {
		return
	}
	result, err := f.run(ctx, argument)
	if err != nil {
		resp.Error = refuse(err)
		return
	}
	resp.Error = resp.Result.Set(ctx, result)
}

// hcl are objects as a result, unless there is an error.
func hcl(objects []any, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	value, err := workload.HCLValue(objects)
	return types.DynamicValue(value), err
}

// refuse is the error of the first argument. Terraform says before it which one
// that is, and ends the sentence.
func refuse(err error) *function.FuncError {
	return function.NewArgumentFuncError(0, strings.TrimSuffix(err.Error(), "."))
}

// read puts an object with optional attributes into a struct with JSON tags.
// Attributes that are null count as left out. Errors name the attribute.
func read(argument types.Dynamic, into any) error {
	_, err := readWith(argument, into, nil)
	return err
}

// readWith is read for arguments with further attributes, which it returns.
func readWith(argument types.Dynamic, into any, further []string) (map[string]any, error) {
	value, err := workload.JSONValue(argument)
	if err != nil {
		return nil, err
	}
	names := append(attributesOf(into), further...)
	object, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("it has to be an object with attributes of %s", list(names))
	}
	rest := map[string]any{}
	for _, name := range further {
		if value, ok := object[name]; ok {
			rest[name] = value
			delete(object, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("it has no attribute %s; the attributes are %s", name, list(names))
		}
	}
	return rest, readObject(object, into)
}

func readObject(object map[string]any, into any) error {
	if err := unexpected(object, into); err != nil {
		return err
	}
	text, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("write it as JSON: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	err = decoder.Decode(into)
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return fmt.Errorf("%s has to be %s, and is %s", wrong.Field, described(wrong.Type), given(wrong.Value))
	}
	return err
}

// unexpected finds an attribute that the struct has not, nested ones included.
func unexpected(object map[string]any, into any) error {
	known := fieldsOf(reflect.TypeOf(into))
	for _, name := range slices.Sorted(maps.Keys(object)) {
		field, ok := known[name]
		if !ok {
			return fmt.Errorf("it has no attribute %s; the attributes are %s", name, list(attributesOf(into)))
		}
		if nested, ok := object[name].(map[string]any); ok && structOf(field) != nil {
			if err := unexpected(nested, reflect.New(structOf(field)).Interface()); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		elements, ok := object[name].([]any)
		if !ok || field.Kind() != reflect.Slice || structOf(field.Elem()) == nil {
			continue
		}
		for i, element := range elements {
			nested, ok := element.(map[string]any)
			if !ok {
				return fmt.Errorf("%s[%d] has to be an object", name, i)
			}
			if err := unexpected(nested, reflect.New(structOf(field.Elem())).Interface()); err != nil {
				return fmt.Errorf("%s[%d]: %w", name, i, err)
			}
		}
	}
	return nil
}

// structOf is the struct that a field holds or points to; nil for others.
func structOf(field reflect.Type) reflect.Type {
	if field.Kind() == reflect.Pointer {
		field = field.Elem()
	}
	if field.Kind() != reflect.Struct {
		return nil
	}
	return field
}

// fieldsOf are the fields of a struct by their names in JSON.
func fieldsOf(of reflect.Type) map[string]reflect.Type {
	of = structOf(of)
	fields := map[string]reflect.Type{}
	for i := range of.NumField() {
		fields[of.Field(i).Tag.Get("json")] = of.Field(i).Type
	}
	return fields
}

// attributesOf are the names of a struct's fields, in their order.
func attributesOf(into any) []string {
	of := structOf(reflect.TypeOf(into))
	var names []string
	for i := range of.NumField() {
		names = append(names, of.Field(i).Tag.Get("json"))
	}
	return names
}

func list(names []string) string { return strings.Join(names, ", ") }

func described(of reflect.Type) string {
	switch of.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a text"
	case reflect.Slice:
		return "a list"
	default:
		return "an object"
	}
}

// given is the name of a JSON value's kind in HCL's words.
func given(kind string) string {
	switch {
	case kind == "array":
		return "a list"
	case kind == "object":
		return "an object"
	case kind == "bool":
		return "true or false"
	case strings.HasPrefix(kind, "number"):
		return "a number"
	default:
		return "a text"
	}
}
