package configuration

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/configs"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/selection"
	"github.com/muster-fleet/terraform-provider-muster/runtime/rollout"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// addOn is one with the configuration "x", which was applied or not, and for a reason
// of its condition Progressing.
func addOn(cluster string, applied bool, reason string) *v1alpha1.ManagedClusterAddOn {
	a := &v1alpha1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: "search"}}
	r := v1alpha1.ConfigReference{ConfigGroupResource: v1alpha1.ConfigGroupResource{Resource: "rs"}, DesiredConfig: &v1alpha1.ConfigSpecHash{ConfigReferent: v1alpha1.ConfigReferent{Name: "x"}}}
	if applied {
		r.LastAppliedConfig = r.DesiredConfig.DeepCopy()
	}
	a.Status.ConfigReferences, a.CreationTimestamp = []v1alpha1.ConfigReference{r}, metav1.NewTime(noon.Add(-time.Hour))
	if reason != "" {
		a.Status.Conditions = []metav1.Condition{{Type: "Progressing", Reason: reason, LastTransitionTime: metav1.NewTime(noon)}}
	}
	return a
}

// A cluster that fails while it has a turn is under way; one that fails without is
// counted as failed.
func TestFailuresCountOutsideOfTheRollout(t *testing.T) {
	for name, x := range map[string]struct {
		addOns   []*v1alpha1.ManagedClusterAddOn
		config   clusterv1alpha1.RolloutConfig
		at       time.Duration
		want     string
		recheck  time.Duration
		clusters []string
		// good says that all clusters were done with the configuration once.
		good bool
	}{
		"a failure with a turn": {
			addOns: []*v1alpha1.ManagedClusterAddOn{addOn("a", false, "Failed"), addOn("b", true, "Completed")}, clusters: []string{"a", "b"},
			want: "selected clusters 2. configured addons 2/2 progressing..., 0 failed 0 timeout.",
		},
		"a failure without one": {
			addOns: []*v1alpha1.ManagedClusterAddOn{addOn("a", false, "Progressing"), addOn("b", false, "Failed")}, clusters: []string{"a", "b"},
			want: "selected clusters 2. configured addons 1/2 progressing..., 1 failed 0 timeout.",
		},
		"a failure that lasts": {
			addOns: []*v1alpha1.ManagedClusterAddOn{addOn("a", false, "Failed"), addOn("b", false, "Progressing")}, clusters: []string{"a", "b", "c"},
			config: clusterv1alpha1.RolloutConfig{ProgressDeadline: "1m"}, at: time.Minute,
			want: "selected clusters 3. configured addons 0/3 progressing..., 0 failed 2 timeout.",
		},
		"well, and not for long": {
			addOns: []*v1alpha1.ManagedClusterAddOn{addOn("a", true, "Completed"), addOn("b", true, "Completed")}, clusters: []string{"a", "b"},
			config: clusterv1alpha1.RolloutConfig{MinSuccessTime: "1m"}, at: 10 * time.Second,
			want: "selected clusters 2. configured addons 1/2 progressing..., 0 failed 0 timeout.", recheck: 50 * time.Second,
		},
		"well for long": {
			addOns: []*v1alpha1.ManagedClusterAddOn{addOn("a", true, "Completed"), addOn("b", true, "Completed")}, clusters: []string{"a", "b"},
			config: clusterv1alpha1.RolloutConfig{MinSuccessTime: "1m"}, at: time.Minute,
			want: "selected clusters 2. configured addons 2/2 completed with no errors, 0 failed 0 timeout.",
		},
		"a canary that crashes later": {
			addOns: []*v1alpha1.ManagedClusterAddOn{addOn("a", true, "Progressing"), addOn("b", false, "")}, clusters: []string{"a", "b"},
			config: clusterv1alpha1.RolloutConfig{MinSuccessTime: "1m", ProgressDeadline: "5m"}, at: 4 * time.Minute,
			want: "selected clusters 2. configured addons 1/2 progressing..., 0 failed 0 timeout.", recheck: time.Minute,
		},
		"and for too long": {
			addOns: []*v1alpha1.ManagedClusterAddOn{addOn("a", true, "Progressing"), addOn("b", false, "")}, clusters: []string{"a", "b"},
			config: clusterv1alpha1.RolloutConfig{MinSuccessTime: "1m", ProgressDeadline: "5m"}, at: 5 * time.Minute,
			want: "selected clusters 2. configured addons 1/2 progressing..., 0 failed 1 timeout.", recheck: 5 * time.Minute,
		},
		"a crash after the rollout": {
			addOns: []*v1alpha1.ManagedClusterAddOn{addOn("a", true, "Progressing"), addOn("b", true, "Completed")}, clusters: []string{"a", "b"},
			config: clusterv1alpha1.RolloutConfig{MinSuccessTime: "1m"}, at: time.Hour, good: true,
			want: "selected clusters 2. configured addons 2/2 completed with no errors, 0 failed 0 timeout.",
		},
		"nothing selected": {want: "selected clusters 0. configured addons 0/0 progressing..., 0 failed 0 timeout."},
	} {
		t.Run(name, func(t *testing.T) {
			a := &v1alpha1.ClusterManagementAddOn{}
			a.Spec.InstallStrategy = v1alpha1.InstallStrategy{Type: "Placements", Placements: []v1alpha1.PlacementStrategy{{
				PlacementRef: v1alpha1.PlacementRef{Namespace: "n", Name: "p"},
				Configs:      []v1alpha1.AddOnConfig{{ConfigGroupResource: v1alpha1.ConfigGroupResource{Resource: "rs"}, ConfigReferent: v1alpha1.ConfigReferent{Name: "x"}}},
				RolloutStrategy: clusterv1alpha1.RolloutStrategy{Type: "Progressive", Progressive: &clusterv1alpha1.RolloutProgressive{
					RolloutConfig: x.config, MaxConcurrency: intstr.FromInt(1),
				}},
			}}}
			if x.good {
				of := x.addOns[0].Status.ConfigReferences[0]
				a.Status.InstallProgressions = []v1alpha1.InstallProgression{{PlacementRef: v1alpha1.PlacementRef{Namespace: "n", Name: "p"},
					ConfigReferences: []v1alpha1.InstallConfigReference{{ConfigGroupResource: of.ConfigGroupResource, DesiredConfig: of.DesiredConfig, LastKnownGoodConfig: of.DesiredConfig}}}}
			}
			placed := selection.Placed{Settled: true, Clusters: sets.New(x.clusters...), Groups: []rollout.Group{{Clusters: x.clusters}}}
			p, err := decide(snapshot{definition: a, placed: []selection.Placed{placed}, addOns: x.addOns}, noon.Add(x.at))
			if err != nil {
				t.Fatal(err)
			}
			if got := p.status.InstallProgressions[0].Conditions[0].Message; got != x.want {
				t.Errorf("got  %q\nwant %q", got, x.want)
			}
			if p.recheck != x.recheck {
				t.Errorf("looked at again after %s, want %s", p.recheck, x.recheck)
			}
		})
	}
}

// The clusters that no placement selects, and those of one that can't be read, keep
// what they have.
func TestOthersAreLeftAlone(t *testing.T) {
	a := &v1alpha1.ClusterManagementAddOn{}
	a.Spec.InstallStrategy = v1alpha1.InstallStrategy{Type: "Placements", Placements: []v1alpha1.PlacementStrategy{{PlacementRef: v1alpha1.PlacementRef{Namespace: "n", Name: "p"}}}}
	for name, placed := range map[string]selection.Placed{
		"not selected":   {Settled: true, Groups: []rollout.Group{{Clusters: []string{"b"}}}},
		"not accepted":   {Settled: true, Clusters: sets.New("a"), Groups: []rollout.Group{{}}},
		"of a lost one":  {Missing: true},
		"of no decision": {Settled: true},
	} {
		p, err := decide(snapshot{definition: a, placed: []selection.Placed{placed}, addOns: []*v1alpha1.ManagedClusterAddOn{addOn("a", true, "")}}, noon)
		if err != nil || len(p.changes) != 0 {
			t.Errorf("%s: %+v, %v", name, p.changes, err)
		}
	}
}

// An add-on waits at the gates of its rollout, until somebody approves what is rolled out.
func TestAnAddOnWaitsAtItsGates(t *testing.T) {
	a := &v1alpha1.ClusterManagementAddOn{ObjectMeta: metav1.ObjectMeta{Name: "search", Annotations: map[string]string{
		muster.RolloutGatesAnnotation: `[{"group":"production"}]`,
	}}}
	config := v1alpha1.AddOnConfig{
		ConfigGroupResource: v1alpha1.ConfigGroupResource{Resource: "rs"},
		ConfigReferent:      v1alpha1.ConfigReferent{Name: "y"},
	}
	a.Spec.InstallStrategy = v1alpha1.InstallStrategy{Type: "Placements", Placements: []v1alpha1.PlacementStrategy{{
		PlacementRef: v1alpha1.PlacementRef{Namespace: "n", Name: "p"}, Configs: []v1alpha1.AddOnConfig{config},
	}}}
	placed := selection.Placed{Settled: true, Clusters: sets.New("a", "b"), Groups: []rollout.Group{
		{Index: 0, Name: "canary", Clusters: []string{"a"}}, {Index: 1, Name: "production", Clusters: []string{"b"}},
	}}
	pass := func(step, configured, message string) plan {
		t.Helper()
		p, err := decide(snapshot{definition: a, placed: []selection.Placed{placed},
			addOns: []*v1alpha1.ManagedClusterAddOn{addOn("a", true, ""), addOn("b", true, "")}}, noon)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, c := range p.changes {
			if c.configured {
				got += c.addOn.Namespace
			}
		}
		said := p.status.InstallProgressions[0].Conditions[0].Message
		if got != configured || !strings.Contains(said, message) {
			t.Errorf("%s: configured %q and said %q, want %q and %q", step, got, said, configured, message)
		}
		a.Status = p.status
		return p
	}
	pass("a gate", "a",
		"1 cluster waits for an approval of the group production (muster rollout approve search production)")
	gates, err := rollout.ReadGates(a.Annotations)
	if err != nil {
		t.Fatal(err)
	}
	a.Annotations[muster.RolloutApprovalsAnnotation] = gates.Approve(rollout.Approval{Group: "production", By: "jo",
		Content: configs.Content(a.Status.InstallProgressions), At: noon})
	if p := pass("an approval", "ab", "approved: production by jo at 2026-01-01T12:00:00Z"); p.approved == "" {
		t.Error("nothing says that it is approved")
	}
	if p := pass("a further pass", "ab", "approved: production by jo"); p.approved != "" {
		t.Errorf("it is said again: %s", p.approved)
	}
	a.Spec.InstallStrategy.Placements[0].Configs[0].Name = "z"
	pass("another configuration", "a", "waits for an approval")
	a.Annotations[muster.RolloutPausedAnnotation] = "true"
	pass("a pause", "", "2 clusters wait as the rollout is paused")
	a.Annotations[muster.RolloutGatesAnnotation] = "production"
	pass("gates that can't be read", "", "Nothing is handed out: the annotation "+muster.RolloutGatesAnnotation)
}
