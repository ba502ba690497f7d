package workdigest_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-fleet/terraform-provider-muster/internal/workdigest"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

func spec(manifests ...string) workv1.ManifestWorkSpec {
	s := workv1.ManifestWorkSpec{}
	for _, m := range manifests {
		s.Workload.Manifests = append(s.Workload.Manifests, workv1.Manifest{RawExtension: runtime.RawExtension{Raw: []byte(m)}})
	}
	return s
}

func TestOf(t *testing.T) {
	base := spec(`{"kind":"A","metadata":{"name":"x"},"n":10000000000000001}`)
	for name, x := range map[string]struct {
		spec workv1.ManifestWorkSpec
		same bool
	}{
		"other order and spaces":         {spec(`{ "n":10000000000000001, "metadata":{"name":"x"},"kind":"A" }`), true},
		"an empty creationTimestamp":     {spec(`{"kind":"A","metadata":{"name":"x","creationTimestamp":null},"n":10000000000000001}`), true},
		"a creationTimestamp":            {spec(`{"kind":"A","metadata":{"name":"x","creationTimestamp":"2026-01-01T00:00:00Z"},"n":10000000000000001}`), false},
		"a null that is not a timestamp": {spec(`{"kind":"A","metadata":{"name":"x"},"n":10000000000000001,"x":null}`), false},
		"a number too great for a float": {spec(`{"kind":"A","metadata":{"name":"x"},"n":10000000000000000}`), false},
		"another manifest":               {spec(`{"kind":"A","metadata":{"name":"x"},"n":10000000000000001}`, `{}`), false},
		"no manifest":                    {spec(), false},
		"a delete option":                {workv1.ManifestWorkSpec{Workload: base.Workload, DeleteOption: &workv1.DeleteOption{}}, false},
		"an empty list of options":       {workv1.ManifestWorkSpec{Workload: base.Workload, ManifestConfigs: []workv1.ManifestConfigOption{}}, true},
	} {
		if same := workdigest.Of(base) == workdigest.Of(x.spec); same != x.same {
			t.Errorf("%s: the digest is the same: %v, want %v", name, same, x.same)
		}
	}
	pods := spec(`{"spec":{"template":{"metadata":{"creationTimestamp":null}},"list":[{"metadata":{"creationTimestamp":null}}]}}`)
	if workdigest.Of(pods) != workdigest.Of(spec(`{"spec":{"template":{"metadata":{}},"list":[{"metadata":{}}]}}`)) {
		t.Error("empty creationTimestamps of templates make a difference")
	}
}
