package manifestwork

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/manifest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// liveManifests are the objects of a work: those that may be read, and those
// that its annotation or the caller says are not to be.
func liveManifests(object *workv1.ManifestWork, writeOnly []string) (open, hidden []manifest.Object, err error) {
	for i, x := range object.Spec.Workload.Manifests {
		parsed, err := manifest.FromJSON(x.Raw)
		if err != nil {
			return nil, nil, fmt.Errorf("read manifest %d of the work: %w", i, err)
		}
		if key := parsed.Key(); slices.Contains(writeOnly, key) || slices.Contains(writeOnlyOf(object), key) {
			hidden = append(hidden, parsed)
		} else {
			open = append(open, parsed)
		}
	}
	return open, hidden, nil
}

// writeOnlyOf is what a work's annotation says. One that can't be read says
// nothing.
func writeOnlyOf(object *workv1.ManifestWork) []string {
	var keys []string
	if err := json.Unmarshal([]byte(object.Annotations[work.WriteOnlyAnnotation]), &keys); err != nil {
		return nil
	}
	return keys
}

// ManifestTexts are objects as a list of YAML.
func ManifestTexts(objects []manifest.Object) (types.List, error) {
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
	x, err := manifest.ParseAll(attribute.StringList(a))
	if err != nil {
		return false
	}
	y, err := manifest.ParseAll(attribute.StringList(b))
	return err == nil && manifest.Equal(x, y)
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
	return err == nil && manifest.Equal(x, y)
}

// FieldsElement is the type of what fields has for one object.
func FieldsElement() attr.Type { return types.MapType{ElemType: types.StringType} }

// UnknownFields are fields that are not known yet.
func UnknownFields() types.Map { return types.MapUnknown(FieldsElement()) }

// FieldsValue are fields as a value of the framework.
func FieldsValue(fields manifest.Fields) types.Map {
	objects := map[string]attr.Value{}
	for key, paths := range fields {
		objects[key] = attribute.StringMapValue(paths)
	}
	return types.MapValueMust(FieldsElement(), objects)
}

// FieldsOf reads what FieldsValue wrote.
func FieldsOf(value types.Map) manifest.Fields {
	fields := manifest.Fields{}
	for key, element := range value.Elements() {
		if paths, ok := element.(types.Map); ok {
			fields[key] = attribute.StringMap(paths)
		}
	}
	return fields
}
