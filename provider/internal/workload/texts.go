package workload

import (
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// TextsOf is the attribute manifests of a data source: objects as YAML, by Live.Texts.
// whose begins the sentence, and resource writes them.
func TextsOf[P any](whose, resource string) attribute.Field[P] {
	return attribute.ByHooks[P]("manifests", schema.ListAttribute{
		MarkdownDescription: whose + " as YAML, except those that `" + resource + "` wrote from `manifests_wo`. " +
			"Secrets among them are read in full, and are then in the state.",
		Computed: true, Sensitive: true, ElementType: types.StringType,
	})
}

// Texts are the objects that may be read, as a list of YAML.
func (l Live) Texts() (types.List, error) {
	open, _, err := l.Read(nil)
	if err != nil {
		return types.ListNull(types.StringType), err
	}
	return Texts(open)
}

// Conditions is the attribute conditions of a resource: without their times, which would
// make a difference where nothing has happened. kinds ends the description of their types.
func Conditions[P any](description, kinds string, read func(P) []metav1.Condition) attribute.Field[P] {
	type condition = metav1.Condition
	return attribute.ReportedObjects("conditions", description, read,
		attribute.ReportedText("type", "Type of the condition"+kinds+".", func(c condition) string { return c.Type }),
		attribute.ReportedText("status", "`True`, `False` or `Unknown`.",
			func(c condition) metav1.ConditionStatus { return c.Status }),
		attribute.ReportedText("reason", "Reason in one word.", func(c condition) string { return c.Reason }),
		attribute.ReportedText("message", "Reason in a sentence.", func(c condition) string { return c.Message }))
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
	sorted := func(objects []Object) []Object {
		return slices.SortedStableFunc(slices.Values(objects), func(x, y Object) int {
			return strings.Compare(x.Key(), y.Key())
		})
	}
	return EqualObjects(sorted(a), sorted(b))
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
