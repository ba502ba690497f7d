package kube

import (
	"fmt"
	"maps"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

// clearObject sets what obj points to to its zero value.
func clearObject(obj runtime.Object) {
	v := reflect.ValueOf(obj).Elem()
	v.Set(reflect.Zero(v.Type()))
}

// assign makes dst a copy of src, which has to be of the same type.
func assign(dst, src runtime.Object) {
	reflect.ValueOf(dst).Elem().Set(reflect.ValueOf(src).Elem())
}

// fresh is a new object of the type of obj.
func fresh(obj runtime.Object) runtime.Object {
	return reflect.New(reflect.TypeOf(obj).Elem()).Interface().(runtime.Object)
}

// Fresh is a new, empty object of the type of obj.
func Fresh(obj Object) Object { return fresh(obj).(Object) }

// Assign makes dst a copy of src. It fails if the two are of different types.
func Assign(dst, src Object) error {
	if reflect.TypeOf(dst) != reflect.TypeOf(src) {
		return fmt.Errorf("take a %T for a %T", src, dst)
	}
	assign(dst, src)
	return nil
}

// TypeName tells the types of objects apart.
func TypeName(obj Object) string { return reflect.TypeOf(obj).String() }

// JSONFields are the types of a struct's fields by their names in JSON, with those of
// embedded structs.
func JSONFields(of reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for field := range of.Fields() {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-" || !field.IsExported():
		case name == "" && (field.Anonymous || strings.Contains(options, "inline")):
			maps.Copy(fields, JSONFields(field.Type))
		case name != "":
			fields[name] = field.Type
		}
	}
	return fields
}
