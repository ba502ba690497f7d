package crud

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func managedEntry(manager string, operation metav1.ManagedFieldsOperationType, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{Manager: manager, Operation: operation, APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields)}
}

func TestFieldsOfTheFormerToolAreInherited(t *testing.T) {
	const apply, update = metav1.ManagedFieldsOperationApply, metav1.ManagedFieldsOperationUpdate
	status := managedEntry("old", update, `{"f:status":{"f:a":{}}}`)
	status.Subresource = "status"
	foreign := func(path string) bool { return path == "spec.taints" || path == "metadata.annotations.theirs.io/x.y" }
	for name, test := range map[string]struct {
		entries []metav1.ManagedFieldsEntry
		want    string // manager/operation fields, joined
	}{
		"nothing to inherit": {[]metav1.ManagedFieldsEntry{managedEntry("other", update, `{"f:spec":{}}`)}, ""},
		"all of it": {[]metav1.ManagedFieldsEntry{managedEntry("old", apply, `{"f:metadata":{"f:labels":{"f:a":{}}},"f:spec":{"f:n":{}}}`)},
			`us/Apply {"f:metadata":{"f:labels":{"f:a":{}}},"f:spec":{"f:n":{}}}`},
		"added to what is there": {[]metav1.ManagedFieldsEntry{
			managedEntry("us", apply, `{"f:spec":{"f:n":{},"f:list":{".":{},"v:\"a\"":{}}}}`),
			managedEntry("old", update, `{"f:spec":{"f:list":{".":{},"v:\"b\"":{}},"f:m":{}}}`)},
			`us/Apply {"f:spec":{"f:list":{".":{},"v:\"a\"":{},"v:\"b\"":{}},"f:m":{},"f:n":{}}}`},
		"of managers by prefix": {[]metav1.ManagedFieldsEntry{managedEntry("terraform-provider-x_v1", update, `{"f:spec":{"f:n":{}}}`)},
			`us/Apply {"f:spec":{"f:n":{}}}`},
		"but for foreign fields": {[]metav1.ManagedFieldsEntry{managedEntry("old", apply, `{"f:metadata":{"f:annotations":{"f:theirs.io/x.y":{},"f:mine":{}}},"f:spec":{"f:n":{},"f:taints":{}}}`)},
			`old/Apply {"f:metadata":{"f:annotations":{"f:theirs.io/x.y":{}}},"f:spec":{"f:taints":{}}}` + "\n" +
				`us/Apply {"f:metadata":{"f:annotations":{"f:mine":{}}},"f:spec":{"f:n":{}}}`},
		"and for the status": {[]metav1.ManagedFieldsEntry{status, managedEntry("other", update, `{"f:spec":{"f:z":{}}}`), managedEntry("old", update, `{"f:spec":{"f:n":{}}}`)},
			`old/Update {"f:status":{"f:a":{}}}` + "\n" + `other/Update {"f:spec":{"f:z":{}}}` + "\n" + `us/Apply {"f:spec":{"f:n":{}}}`},
		"an own update is not an own apply": {[]metav1.ManagedFieldsEntry{managedEntry("us", update, `{"f:spec":{"f:z":{}}}`), managedEntry("old", apply, `{"f:spec":{"f:n":{}}}`)},
			`us/Update {"f:spec":{"f:z":{}}}` + "\n" + `us/Apply {"f:spec":{"f:n":{}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			entries, changed := inheritedFields(test.entries, []string{"old", "terraform-provider-*"}, "us", foreign)
			var got []string
			for _, e := range entries {
				if e.APIVersion == "" || e.FieldsType != "FieldsV1" {
					t.Errorf("%s has no version or no type of fields", e.Manager)
				}
				got = append(got, e.Manager+"/"+string(e.Operation)+" "+string(e.FieldsV1.GetRawBytes()))
			}
			if changed != (test.want != "") || (changed && strings.Join(got, "\n") != test.want) {
				t.Errorf("got %v %s\nwant %s", changed, strings.Join(got, "\n"), test.want)
			}
		})
	}
}
