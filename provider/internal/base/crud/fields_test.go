package crud

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestFieldsOfAManager(t *testing.T) {
	object := &corev1.ConfigMap{}
	object.ManagedFields = []metav1.ManagedFieldsEntry{
		{Manager: "me", Operation: metav1.ManagedFieldsOperationApply, FieldsV1: rawFields(`{"f:metadata":{"f:labels":{"f:b":{},"f:a":{}}},"f:spec":{"f:size":{}}}`)},
		{Manager: "me", Operation: metav1.ManagedFieldsOperationUpdate, FieldsV1: rawFields(`{"f:spec":{"f:taints":{}}}`)},
		{Manager: "me", Subresource: "status", FieldsV1: rawFields(`{"f:status":{}}`)},
		{Manager: "other", FieldsV1: rawFields(`{"f:metadata":{"f:labels":{"f:c":{}}}}`)},
	}
	mine := FieldsOf(object, "me")
	if got := mine.Keys("metadata", "labels"); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("labels are %q", got)
	}
	if !mine.Has("spec", "size") || !mine.Has("spec", "taints") || mine.Has("status") || mine.Has("spec", "color") {
		t.Error("owns the wrong fields")
	}
	if mine.None() || !FieldsOf(object, "nobody").None() {
		t.Error("takes one manager for another")
	}
}

func rawFields(raw string) *metav1.FieldsV1 {
	f := &metav1.FieldsV1{}
	f.SetRawBytes([]byte(raw))
	return f
}
