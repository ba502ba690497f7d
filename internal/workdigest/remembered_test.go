package workdigest

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// A spec that was seen is not looked into again. A fleet may have any number of specs.
func TestDigestsAreRememberedAndForgotten(t *testing.T) {
	spec := func(i int) workv1.ManifestWorkSpec {
		raw := fmt.Appendf(nil, `{"kind":"A","n":%d}`, i)
		manifests := []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: raw}}}
		return workv1.ManifestWorkSpec{Workload: workv1.ManifestsTemplate{Manifests: manifests}}
	}
	first := Of(spec(-1))
	asked := false
	for key, digest := range digests.known {
		if got := digests.get(key, func() string { asked = true; return "" }); got != digest || asked {
			t.Errorf("the digest of a spec that was seen is %q, want %q", got, digest)
		}
	}
	for i := range 2 * digestsKept {
		Of(spec(i))
	}
	if n := len(digests.known); n > digestsKept {
		t.Errorf("%d digests are remembered", n)
	}
	if got := Of(spec(-1)); got != first {
		t.Errorf("the digest is %q, was %q", got, first)
	}
}
