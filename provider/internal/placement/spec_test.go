package placement

import (
	"maps"
	"reflect"
	"slices"
	"testing"
)

// An attribute that the table of the selection lacks would be accepted and ignored.
func TestTheTableHasEveryAttributeOfTheSelection(t *testing.T) {
	var names []string
	for _, field := range specFields() {
		names = append(names, field.name)
	}
	slices.Sort(names)
	if want := slices.Sorted(maps.Keys(placementSpecAttributes())); !slices.Equal(names, want) {
		t.Errorf("the table has %v, the schema %v", names, want)
	}
	var model []string
	for i := range reflect.TypeFor[placementSpecModel]().NumField() {
		model = append(model, reflect.TypeFor[placementSpecModel]().Field(i).Tag.Get("tfsdk"))
	}
	slices.Sort(model)
	if !slices.Equal(names, model) {
		t.Errorf("the table has %v, the model %v", names, model)
	}
}

// Each entry reads and writes the place that it names, and no other.
func TestEveryEntryOfTheTableIsAboutItsOwnAttribute(t *testing.T) {
	model := reflect.TypeFor[placementSpecModel]()
	for _, field := range specFields() {
		m := &placementSpecModel{}
		target := field.target(m)
		for i := range model.NumField() {
			is := reflect.ValueOf(m).Elem().Field(i).Addr().Interface() == target
			if named := model.Field(i).Tag.Get("tfsdk") == field.name; is != named {
				t.Errorf("the entry %s leads to the field %s", field.name, model.Field(i).Name)
			}
		}
		if field.isSet(m) {
			t.Errorf("%s is set in an empty model", field.name)
		}
	}
}
