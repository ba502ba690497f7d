package leanwork_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/leanwork"
)

func spec(manifests ...string) workv1.ManifestWorkSpec {
	s := workv1.ManifestWorkSpec{}
	for _, m := range manifests {
		s.Workload.Manifests = append(s.Workload.Manifests, workv1.Manifest{RawExtension: runtime.RawExtension{Raw: []byte(m)}})
	}
	return s
}

func TestDigests(t *testing.T) {
	base := spec(`{"kind":"A","metadata":{"name":"x"},"n":10000000000000001}`)
	for name, x := range map[string]struct {
		spec workv1.ManifestWorkSpec
		same bool
	}{
		"other order and spaces":         {spec(`{ "n":10000000000000001, "metadata":{"name":"x"},"kind":"A" }`), true},
		"an empty creationTimestamp":     {spec(`{"kind":"A","metadata":{"name":"x","creationTimestamp":null},"n":10000000000000001}`), true},
		"a creationTimestamp":            {spec(`{"kind":"A","metadata":{"name":"x","creationTimestamp":"2026-01-01T00:00:00Z"},"n":10000000000000001}`), false},
		"a null that is no timestamp":    {spec(`{"kind":"A","metadata":{"name":"x"},"n":10000000000000001,"x":null}`), false},
		"a number too great for a float": {spec(`{"kind":"A","metadata":{"name":"x"},"n":10000000000000000}`), false},
		"another manifest":               {spec(`{"kind":"A","metadata":{"name":"x"},"n":10000000000000001}`, `{}`), false},
		"no manifest":                    {spec(), false},
		"a delete option":                {workv1.ManifestWorkSpec{Workload: base.Workload, DeleteOption: &workv1.DeleteOption{}}, false},
		"an empty list of options":       {workv1.ManifestWorkSpec{Workload: base.Workload, ManifestConfigs: []workv1.ManifestConfigOption{}}, true},
	} {
		if same := leanwork.Digest(base) == leanwork.Digest(x.spec); same != x.same {
			t.Errorf("%s: the digest is the same: %v, want %v", name, same, x.same)
		}
	}
	pods := spec(`{"spec":{"template":{"metadata":{"creationTimestamp":null}},"list":[{"metadata":{"creationTimestamp":null}}]}}`)
	if leanwork.Digest(pods) != leanwork.Digest(spec(`{"spec":{"template":{"metadata":{}},"list":[{"metadata":{}}]}}`)) {
		t.Error("empty creationTimestamps of templates make a difference")
	}
}

func TestLeanWorks(t *testing.T) {
	w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: "x", Labels: map[string]string{"a": "b"}, ManagedFields: []metav1.ManagedFieldsEntry{{}}}, Spec: spec(`{"a":1}`)}
	w.Status.Conditions = []metav1.Condition{{Type: "Applied", Reason: "r", Message: "m"}, {Type: "Complete"}, {Type: "Degraded"}}
	w.Status.ResourceStatus.Manifests = []workv1.ManifestCondition{{}}
	want, transform := leanwork.Digest(w.Spec), leanwork.Transform(leanwork.Conditions)
	for range 2 { // the cache may do it twice
		o, err := transform(w)
		if err != nil || o != any(w) {
			t.Fatal(o, err)
		}
		if leanwork.Digest(w.Spec) != want {
			t.Error("the digest is lost")
		}
	}
	if len(w.Spec.Workload.Manifests[0].Raw) != len("sha256:")+64 || len(w.Status.Conditions) != 2 || w.Status.Conditions[0].Message != "" ||
		w.Status.Conditions[0].Reason != "r" || w.Status.ResourceStatus.Manifests != nil || w.ManagedFields != nil || w.Labels["a"] != "b" {
		t.Errorf("the work became %+v", w)
	}
	if o, err := transform("something else"); o != "something else" || err != nil {
		t.Errorf("got %v, %v", o, err)
	}
}
