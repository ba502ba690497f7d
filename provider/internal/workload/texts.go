package workload

import (
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
)

// Texts are objects as a list of YAML.
func Texts(objects []Object) (types.List, error) {
	texts := []string{}
	for _, object := range objects {
		text, err := object.YAML()
		if err != nil {
			return types.ListNull(types.StringType), err
		}
		texts = append(texts, text)
	}
	return attribute.StringListValue(texts), nil
}

// SameManifests reports whether two lists of manifests, both known, mean the
// same.
func SameManifests(a, b types.List) bool {
	if a.IsNull() || b.IsNull() || !attribute.Known(a) || !attribute.Known(b) {
		return false
	}
	x, err := ParseAllYAML(attribute.StringList(a))
	if err != nil {
		return false
	}
	y, err := ParseAllYAML(attribute.StringList(b))
	return err == nil && same(x, y)
}

// sameObjects reports whether two values of objects, both known, mean the same.
func sameObjects(a, b types.Dynamic) bool {
	if isNull(a) || isNull(b) {
		return false
	}
	x, err := objectManifests(a)
	if err != nil {
		return false
	}
	y, err := objectManifests(b)
	return err == nil && same(x, y)
}

// same reports whether two lists have the same objects, in any order: agents order
// them themselves.
func same(a, b []Object) bool {
	byKey := func(x, y Object) int { return strings.Compare(x.Key(), y.Key()) }
	return EqualObjects(slices.SortedStableFunc(slices.Values(a), byKey), slices.SortedStableFunc(slices.Values(b), byKey))
}

// FieldsElement is the type of what fields has for one object.
func FieldsElement() attr.Type { return types.MapType{ElemType: types.StringType} }

// UnknownFields are fields that are not known yet.
func UnknownFields() types.Map { return types.MapUnknown(FieldsElement()) }

// FieldsValue are fields as a value of the framework.
func FieldsValue(fields Fields) types.Map {
	objects := map[string]attr.Value{}
	for key, paths := range fields {
		objects[key] = attribute.StringMapValue(paths)
	}
	return types.MapValueMust(FieldsElement(), objects)
}

// FieldsFrom reads what FieldsValue wrote.
func FieldsFrom(value types.Map) Fields {
	fields := Fields{}
	for key, element := range value.Elements() {
		if paths, ok := element.(types.Map); ok {
			fields[key] = attribute.StringMap(paths)
		}
	}
	return fields
}
