package features_test

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/component-base/featuregate"

	"github.com/muster-fleet/terraform-provider-muster/runtime/features"
)

// The names and defaults are upstream's, as configurations are written for them,
// but for ManifestWorkReplicaSet, which is on.
func TestDefaults(t *testing.T) {
	for name, x := range map[string]struct {
		gates featuregate.MutableFeatureGate
		on    string
		off   string
	}{
		"hub": {features.NewHub(), "DefaultClusterSet ResourceCleanup AddonManagement ManifestWorkReplicaSet " +
			"ClusterRegistration UserAccess BoundClusterSets WorkPreview WorkOverride Tunnel",
			"ClusterImport ManagedClusterAutoApproval ClusterProfile ClusterImporter V1beta1CSRAPICompatibility SIGPlacementDecision PlacementDebugServer PreferNoSelect NilExecutorValidating RolloutNeedsProgressing CloudEventsDrivers CleanUpCompletedManifestWork"},
		"agent": {features.NewAgent(), "ClusterClaim AddonManagement DerivedProgressing WorkPreview",
			"ClusterProperty MultipleHubs V1beta1CSRAPICompatibility ExecutorValidatingCaches RawFeedbackJsonString"},
	} {
		t.Run(name, func(t *testing.T) {
			count := 2 // AllAlpha and AllBeta
			for on, list := range map[bool]string{true: x.on, false: x.off} {
				for f := range strings.FieldsSeq(list) {
					count++
					if x.gates.Enabled(featuregate.Feature(f)) != on {
						t.Errorf("%s is on: %v, want %v", f, !on, on)
					}
				}
			}
			if n := len(x.gates.GetAll()); n != count {
				t.Errorf("%d gates, want %d", n, count)
			}
			if err := features.Check(x.gates); err != nil {
				t.Errorf("the defaults: %v", err)
			}
		})
	}
}

func TestCheckNamesWhatIsMissing(t *testing.T) {
	gates := features.NewHub()
	if err := gates.Set("ClusterImporter=true,CloudEventsDrivers=true,ClusterProfile=true"); err != nil {
		t.Fatal(err)
	}
	err := features.Check(gates)
	if err == nil || !strings.Contains(err.Error(), "CloudEventsDrivers, ClusterImporter,") || strings.Contains(err.Error(), "ClusterProfile") {
		t.Errorf("got %v", err)
	}
}

func TestHelpExplainsEveryGateThatWorks(t *testing.T) {
	for name, gates := range map[string]featuregate.MutableFeatureGate{"hub": features.NewHub(), "agent": features.NewAgent()} {
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		features.AddFlag(f, gates)
		help := f.Lookup("feature-gates").Usage
		for gate := range gates.GetAll() {
			if strings.HasPrefix(string(gate), "All") {
				continue
			}
			alone := map[string]featuregate.MutableFeatureGate{"hub": features.NewHub(), "agent": features.NewAgent()}[name]
			if err := alone.SetFromMap(map[string]bool{string(gate): true}); err != nil {
				t.Fatal(err)
			}
			works := features.Check(alone) == nil
			if explained := strings.Contains(help, "\n  "+string(gate)+" ("); explained != works {
				t.Errorf("%s's %s works: %v, is explained: %v", name, gate, works, explained)
			}
		}
		if err := f.Parse([]string{"--feature-gates", "AddonManagement=false"}); err != nil || gates.Enabled("AddonManagement") {
			t.Errorf("the flag has no effect (%v)", err)
		}
	}
}
