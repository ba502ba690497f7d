package replicaset

import (
	"maps"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

func TestSetOfALabel(t *testing.T) {
	for label, want := range map[string]types.NamespacedName{
		"ns.web":        {Namespace: "ns", Name: "web"},
		"ns.web.v1.2.3": {Namespace: "ns", Name: "web.v1.2.3"},
	} {
		if got, ok := setOf(label); !ok || got != want {
			t.Errorf("%q is of %v (%v), want %v", label, got, ok, want)
		}
	}
	for _, label := range []string{"", "web", ".web", "ns."} {
		if got, ok := setOf(label); ok {
			t.Errorf("%q is of %v", label, got)
		}
	}
}

// A work says like its set what its author does not want to read back, and has
// no other annotation of it.
func TestWorksKnowWhatIsWriteOnly(t *testing.T) {
	set := &workv1alpha1.ManifestWorkReplicaSet{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{work.WriteOnlyAnnotation: "[1]", "owner": "me"}}}
	w := &workv1.ManifestWork{}
	markWriteOnly(w, set)
	if !maps.Equal(w.Annotations, map[string]string{work.WriteOnlyAnnotation: "[1]"}) {
		t.Errorf("got %v", w.Annotations)
	}
	w.Annotations["other"] = "stays"
	markWriteOnly(w, &workv1alpha1.ManifestWorkReplicaSet{})
	if !maps.Equal(w.Annotations, map[string]string{"other": "stays"}) {
		t.Errorf("got %v", w.Annotations)
	}
}
