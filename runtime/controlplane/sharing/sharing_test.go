package sharing

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
)

// work is a work of a replica set, as a watch cache decodes it.
func work(t *testing.T, name, image, reported string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	err := json.Unmarshal(fmt.Appendf(nil, `{"apiVersion":"work.open-cluster-management.io/v1","kind":"ManifestWork",
		"metadata":{"name":%q,"namespace":"cluster","uid":%[1]q,"labels":{"set":"web"},
			"managedFields":[{"manager":"hub","time":%[3]q,"fieldsV1":{"f:spec":{".":{},"f:workload":{}}}}]},
		"spec":{"workload":{"manifests":[{"kind":"Deployment","spec":
			{"image":%[2]q,"replicas":3,"paused":false,"x":null}}]}},
		"status":{"conditions":[{"type":"Applied","lastTransitionTime":%[3]q}]}}`, name, image, reported), &u.Object)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// at is the address of what an object has at a path.
func at(t *testing.T, u *unstructured.Unstructured, path ...any) uintptr {
	t.Helper()
	var v any = u.Object
	for _, step := range path {
		switch step := step.(type) {
		case string:
			v = v.(map[string]any)[step]
		case int:
			v = v.([]any)[step]
		}
	}
	return reflect.ValueOf(v).Pointer()
}

func TestEqualPartsAreOne(t *testing.T) {
	table := NewTable()
	first, second := work(t, "a", "app:1", "10:00"), work(t, "b", "app:1", "10:01")
	other := work(t, "c", "app:2", "10:00")
	for _, u := range []*unstructured.Unstructured{first, second, other} {
		want := u.DeepCopy()
		table.Object(u)
		if !reflect.DeepEqual(u, want) {
			t.Errorf("%v became %v", want, u)
		}
	}
	for _, path := range [][]any{
		{"spec"}, {"metadata", "labels"}, {"metadata", "managedFields", 0, "fieldsV1"},
	} {
		if at(t, first, path...) != at(t, second, path...) {
			t.Errorf("%v of two works of one set is in memory twice", path)
		}
	}
	for _, path := range [][]any{{"metadata"}, {"status"}, {"metadata", "managedFields"}} {
		if at(t, first, path...) == at(t, second, path...) {
			t.Errorf("two works that differ there have one %v", path)
		}
	}
	if at(t, first, "spec") == at(t, other, "spec") {
		t.Error("works of two images have one spec")
	}
	if at(t, first, "status") != at(t, other, "status") {
		t.Error("a status is in memory twice")
	}
}

// What is alike and not equal stays apart.
func TestPartsThatAreAlike(t *testing.T) {
	table := NewTable()
	for _, spec := range []string{
		`{"a":"b"}`, `{"b":"a"}`, `{"a":1}`, `{"a":"1"}`, `{"a":true}`, `{"a":null}`, `{}`, `[]`,
		`[{}]`, `{"a":{}}`, `{"a":[]}`,
		`["a","b"]`, `["b","a"]`, `{"a":["b"]}`, `[["a"],"b"]`, `[["a","b"]]`, `{"a":{"b":"c"}}`, `{"b":{"a":"c"}}`,
	} {
		var want, got any
		for _, v := range []*any{&want, &got} {
			if err := json.Unmarshal([]byte(spec), v); err != nil {
				t.Fatal(err)
			}
		}
		u := &unstructured.Unstructured{Object: map[string]any{"spec": got}}
		table.Object(u)
		if !reflect.DeepEqual(u.Object["spec"], want) {
			t.Errorf("%s became %v", spec, u.Object["spec"])
		}
	}
}

func TestEqualLabelsAreOne(t *testing.T) {
	table := NewTable()
	first := table.Labels(labels.Set{"a": "b", "c": "d"})
	second, other := table.Labels(labels.Set{"c": "d", "a": "b"}), table.Labels(labels.Set{"a": "d", "c": "b"})
	if reflect.ValueOf(first).Pointer() != reflect.ValueOf(second).Pointer() {
		t.Error("equal labels are in memory twice")
	}
	if other["a"] != "d" || second["a"] != "b" || len(other) != 2 {
		t.Errorf("got %v and %v", second, other)
	}
}

// A fleet changes for years, and the table does not grow with what was once: neither with
// many parts nor with large ones.
func TestATableForgets(t *testing.T) {
	table := NewTable()
	kept := work(t, "a", "app:1", "10:00")
	table.Object(kept)
	large := strings.Repeat("x", 1<<20)
	for i := range 100_000 {
		table.Labels(labels.Set{"unique": fmt.Sprint(i)})
		if i%10_000 != 0 {
			continue
		}
		table.Object(work(t, "b", fmt.Sprint(i, large), "10:00"))
		again := work(t, "c", "app:1", "10:00")
		table.Object(again)
		if at(t, again, "spec") != at(t, kept, "spec") {
			t.Error("a part that objects have all the time was forgotten after", i)
		}
	}
	size := 0
	for _, v := range table.young {
		size += sizeOf(v)
	}
	for _, v := range table.old {
		size += sizeOf(v)
	}
	if size > 2*remembered {
		t.Errorf("the table remembers %d bytes", size)
	}
}
