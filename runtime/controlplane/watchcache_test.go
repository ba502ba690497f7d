package controlplane_test

import (
	"testing"

	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
)

// The shared server has been started, so its gates are set.
func TestWatchCachesKeepNoSnapshotsAndAreNotChecked(t *testing.T) {
	for _, gate := range []featuregate.Feature{features.ListFromCacheSnapshot, features.DetectCacheInconsistency} {
		if utilfeature.DefaultFeatureGate.Enabled(gate) {
			t.Errorf("%s is on", gate)
		}
	}
}
