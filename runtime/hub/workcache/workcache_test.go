package workcache_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/internal/workdigest"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/workcache"
)

func spec(manifests ...string) workv1.ManifestWorkSpec {
	s := workv1.ManifestWorkSpec{}
	for _, m := range manifests {
		s.Workload.Manifests = append(s.Workload.Manifests, workv1.Manifest{RawExtension: runtime.RawExtension{Raw: []byte(m)}})
	}
	return s
}

func TestLeanWorks(t *testing.T) {
	w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: "x", Labels: map[string]string{"a": "b"}, ManagedFields: []metav1.ManagedFieldsEntry{{}}}, Spec: spec(`{"a":1}`)}
	w.Status.Conditions = []metav1.Condition{{Type: "Applied", Reason: "r", Message: "m"}, {Type: "Complete"}, {Type: "Degraded"}}
	w.Status.ResourceStatus.Manifests = []workv1.ManifestCondition{{}}
	want, transform := workdigest.Of(w.Spec), workcache.Transform(workcache.Keep{Status: workcache.Conditions})
	for range 2 { // the cache may do it twice
		o, err := transform(w)
		if err != nil || o != any(w) {
			t.Fatal(o, err)
		}
		if workdigest.Of(w.Spec) != want {
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

// The manager's cache has all works. It keeps what controllers read: how a work is, and when
// a complete one is deleted.
func TestAllWorks(t *testing.T) {
	option := &workv1.DeleteOption{TTLSecondsAfterFinished: ptr.To[int64](5)}
	w := &workv1.ManifestWork{Spec: spec(`{"a":1}`)}
	w.Spec.DeleteOption = option
	w.Status.Conditions = []metav1.Condition{{Type: "Applied"}, {Type: "Complete", Message: "m"}, {Type: "Other"}}
	want := workdigest.Of(w.Spec)
	for range 2 {
		if _, err := workcache.All().Transform(w); err != nil {
			t.Fatal(err)
		}
		if workdigest.Of(w.Spec) != want || w.Spec.DeleteOption != option || len(w.Spec.Workload.Manifests) != 1 {
			t.Errorf("the spec became %+v", w.Spec)
		}
		if c := w.Status.Conditions; len(c) != 2 || c[1].Type != "Complete" || c[1].Message != "" {
			t.Errorf("the conditions became %v", c)
		}
	}
}

// A cache may keep some of the manifests, or what stands for them.
func TestKeptManifests(t *testing.T) {
	w := &workv1.ManifestWork{Spec: spec(`{"a":1}`, `{"b":2}`)}
	want := workdigest.Of(w.Spec)
	last := func(s workv1.ManifestWorkSpec) []workv1.Manifest {
		all := workdigest.Manifests(s)
		return all[len(all)-1:]
	}
	transform := workcache.Transform(workcache.Keep{Status: workcache.Conditions, Manifests: last})
	for range 2 {
		if _, err := transform(w); err != nil {
			t.Fatal(err)
		}
		kept := workdigest.Manifests(w.Spec)
		if workdigest.Of(w.Spec) != want || len(kept) != 1 || string(kept[0].Raw) != `{"b":2}` {
			t.Errorf("the spec became %+v", w.Spec)
		}
	}
}
