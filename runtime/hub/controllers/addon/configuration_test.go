package addon_test

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

const (
	configured    = "True/ConfigurationsConfigured/Configurations configured"
	notConfigured = "False/ConfigurationsNotConfigured/Configurations updated and not configured yet"
	completed     = "False/Completed/completed with no errors."
	notReady      = "True/Progressing/progressing... work is not ready"
	mismatch      = "True/Progressing/progressing... mca and work configs mismatch"
	noWorks       = "True/Progressing/progressing... no addon works"
)

func progressive(concurrency int, config clusterv1alpha1.RolloutConfig) clusterv1alpha1.RolloutStrategy {
	return clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.RolloutTypeProgressive, Progressive: &clusterv1alpha1.RolloutProgressive{
		RolloutConfig: config, MaxConcurrency: intstr.FromInt(concurrency),
	}}
}

func (f *fleet) mustCondition(cluster, which, want string) {
	f.Helper()
	if got := f.condition(cluster, which); got != want {
		f.Errorf("%s of the add-on in %s is %q, want %q", which, cluster, got, want)
	}
}

func TestAnAddOnWithoutConfigurations(t *testing.T) {
	f := newFleet(t, "a")
	f.define("")
	f.manual("a", "")
	f.pass()
	f.mustCondition("a", "Configured", configured)
	f.mustCondition("a", "Progressing", "False/WaitingForManifestApplied/Waiting for ManagedClusterAddOn ManifestApplied condition")
	f.deploy("a", false)
	f.pass()
	f.mustCondition("a", "Progressing", notReady)
	f.deploy("a", true)
	f.pass()
	f.mustCondition("a", "Progressing", completed)
	if got := f.definition().Status.InstallProgressions; len(got) != 0 {
		t.Errorf("the strategy Manual has the progressions %+v", got)
	}
}

// A default counts for all clusters, a placement's for its own, and a cluster's for
// itself.
func TestConfigurationsOverrideEachOther(t *testing.T) {
	f := newFleet(t, "a b")
	f.place("p", "0:a,b")
	f.define("one others/two", f.strategy("p", "three four three"))
	f.pass()
	f.mustHave(map[string]string{"a": "two three four", "b": "two three four"})

	f.hash(map[string]string{"two": "2", "three": "3", "four": "4"})
	f.pass()
	f.mustHave(map[string]string{"a": "two=2 three=3 four=4"})
	if got := f.definition().Status.DefaultConfigReferences; len(got) != 2 || got[0].DesiredConfig.SpecHash != "" || got[1].DesiredConfig.SpecHash != "2" {
		t.Errorf("the defaults are %+v", got)
	}

	b := f.in("b")
	b.Spec.Configs = f.settings("five nothing/six")
	f.Must(f.Update(context.Background(), b))
	f.pass()
	f.hash(map[string]string{"five": "5"})
	f.pass()
	f.mustHave(map[string]string{"a": "two=2 three=3 four=4", "b": "six two=2 five=5"})
	f.deploy("a b", true)
	f.pass()
	f.mustCondition("b", "Progressing", "False/ConfigurationUnsupported/Configuration with gvr example.org/nothing is not supported for this addon")
	f.mustHave(map[string]string{"a": "two=2! three=3! four=4!"})
	f.mustProgress(0, "True/Progressing/selected clusters 2. configured addons 2/2 progressing..., 0 failed 0 timeout.")

	// The order of a kind is the author's, and so is its change.
	definition := f.definition()
	definition.Spec.InstallStrategy.Placements[0].Configs = f.settings("four three")
	f.Must(f.Update(context.Background(), definition))
	f.pass()
	f.mustHave(map[string]string{"a": "two=2! four=4! three=3!"})
}

func TestTheReservedNameIsNoConfiguration(t *testing.T) {
	f := newFleet(t, "a b")
	f.place("p", "0:a,b")
	f.define("__reserved_no_default__", f.strategy("p", "", progressive(1, clusterv1alpha1.RolloutConfig{})))
	f.pass()
	if got := f.definition().Status; len(got.DefaultConfigReferences) != 0 || len(got.InstallProgressions[0].ConfigReferences) != 0 {
		t.Errorf("the status is %+v", got)
	}
	f.mustHave(map[string]string{"a": "", "b": ""})

	definition := f.definition()
	definition.Spec.InstallStrategy.Placements[0].Configs = f.settings("one")
	f.Must(f.Update(context.Background(), definition))
	f.pass()
	f.hash(map[string]string{"one": "1"})
	f.pass()
	f.mustHave(map[string]string{"a": "one=1", "b": ""})
	f.mustCondition("a", "Configured", configured)
	f.mustCondition("b", "Configured", notConfigured)
	f.mustProgress(0, "True/Progressing/selected clusters 2. configured addons 1/2 progressing..., 0 failed 0 timeout.")
	f.deploy("a", true)
	f.pass()
	f.mustHave(map[string]string{"a": "one=1!", "b": "one=1"})
	f.mustCondition("b", "Configured", configured)
	f.deploy("b", true)
	f.pass()
	f.mustProgress(0, "False/Completed/selected clusters 2. configured addons 2/2 completed with no errors, 0 failed 0 timeout.")
	r := f.definition().Status.InstallProgressions[0].ConfigReferences[0]
	if r.LastAppliedConfig == nil || *r.LastAppliedConfig != *r.DesiredConfig || r.LastKnownGoodConfig == nil || *r.LastKnownGoodConfig != *r.DesiredConfig {
		t.Errorf("the progression is about %+v", r)
	}
	if n := f.pass(); n != 0 {
		t.Errorf("%d writes although nothing changed", n)
	}
}

// A rollout stops at clusters that take too long, and goes on once they recover.
func TestAProgressiveRolloutStopsAndGoesOn(t *testing.T) {
	f := newFleet(t, "a b c d")
	f.place("p", "0:a,b,c,d")
	f.define("one", f.strategy("p", ""))
	f.pass()
	f.hash(map[string]string{"one": "1"})
	f.pass()
	f.deploy("a b c d", true)
	f.pass()
	f.mustProgress(0, "False/Completed/selected clusters 4. configured addons 4/4 completed with no errors, 0 failed 0 timeout.")

	definition := f.definition()
	definition.Spec.InstallStrategy.Placements[0].RolloutStrategy = progressive(2, clusterv1alpha1.RolloutConfig{ProgressDeadline: "5s", MaxFailures: intstr.FromInt(1)})
	f.Must(f.Update(context.Background(), definition))
	f.hash(map[string]string{"one": "2"})
	f.pass()
	f.mustHave(map[string]string{"a": "one=2", "b": "one=2", "c": "one=1!", "d": "one=1!"})
	f.mustCondition("c", "Configured", notConfigured)
	f.mustCondition("a", "Progressing", mismatch)
	f.mustProgress(0, "True/Progressing/selected clusters 4. configured addons 2/4 progressing..., 0 failed 0 timeout.")
	if f.wait != 5*time.Second {
		t.Errorf("the add-on is looked at again after %s, want 5s", f.wait)
	}
	f.clock.SetTime(noon.Add(5 * time.Second))
	f.pass()
	f.mustProgress(0, "True/Progressing/selected clusters 4. configured addons 0/4 progressing..., 0 failed 2 timeout.")
	f.mustHave(map[string]string{"c": "one=1!"})
	if f.wait != 0 {
		t.Errorf("the add-on is looked at again after %s, want never", f.wait)
	}
	f.deploy("a b", true)
	f.pass()
	f.mustProgress(0, "True/Progressing/selected clusters 4. configured addons 4/4 progressing..., 0 failed 0 timeout.")
	f.mustHave(map[string]string{"a": "one=2!", "b": "one=2!", "c": "one=2", "d": "one=2"})
	f.deploy("c d", true)
	f.pass()
	f.mustProgress(0, "False/Completed/selected clusters 4. configured addons 4/4 completed with no errors, 0 failed 0 timeout.")
}

// An add-on that was busy with one configuration has the whole time for the next.
func TestTheDeadlineCountsFromTheConfigurationOn(t *testing.T) {
	f := newFleet(t, "a")
	f.place("p", "0:a")
	all := clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.RolloutTypeAll, All: &clusterv1alpha1.RolloutAll{RolloutConfig: clusterv1alpha1.RolloutConfig{ProgressDeadline: "1m"}}}
	f.define("one", f.strategy("p", "", all))
	f.pass()
	f.hash(map[string]string{"one": "1"})
	f.pass()
	f.deploy("a", false)
	f.pass()
	f.clock.SetTime(noon.Add(50 * time.Second))
	f.hash(map[string]string{"one": "2"})
	f.pass()
	f.clock.SetTime(noon.Add(70 * time.Second))
	f.pass()
	f.mustProgress(0, "True/Progressing/selected clusters 1. configured addons 1/1 progressing..., 0 failed 0 timeout.")
	if f.wait != 40*time.Second {
		t.Errorf("the add-on is looked at again after %s, want 40s", f.wait)
	}
	f.clock.SetTime(noon.Add(110 * time.Second))
	f.pass()
	f.mustProgress(0, "True/Progressing/selected clusters 1. configured addons 0/1 progressing..., 0 failed 1 timeout.")
}

func TestGroupsWaitForEachOtherToBeWellForAWhile(t *testing.T) {
	f := newFleet(t, "a b c")
	f.place("p", "0:a,b 1:c")
	f.define("one", f.strategy("p", "", clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.RolloutTypeProgressivePerGroup,
		ProgressivePerGroup: &clusterv1alpha1.RolloutProgressivePerGroup{RolloutConfig: clusterv1alpha1.RolloutConfig{MinSuccessTime: "3s"}}}))
	f.pass()
	f.hash(map[string]string{"one": "1"})
	f.pass()
	f.mustHave(map[string]string{"a": "one=1", "b": "one=1", "c": ""})
	f.deploy("a b", true)
	f.pass()
	f.mustHave(map[string]string{"a": "one=1!", "b": "one=1!", "c": ""})
	f.mustProgress(0, "True/Progressing/selected clusters 3. configured addons 2/3 progressing..., 0 failed 0 timeout.")
	if f.wait != 3*time.Second {
		t.Errorf("the add-on is looked at again after %s, want 3s", f.wait)
	}
	f.clock.SetTime(noon.Add(3 * time.Second))
	f.pass()
	f.mustHave(map[string]string{"c": "one=1"})
	f.deploy("c", true)
	f.pass()
	f.mustProgress(0, "True/Progressing/selected clusters 3. configured addons 3/3 progressing..., 0 failed 0 timeout.")
	f.clock.SetTime(noon.Add(6 * time.Second))
	f.pass()
	f.mustProgress(0, "False/Completed/selected clusters 3. configured addons 3/3 completed with no errors, 0 failed 0 timeout.")
}

// A cluster that two placements select goes by the last, and takes no turn of the
// first.
func TestPlacementsOverlap(t *testing.T) {
	f := newFleet(t, "a b c")
	f.place("p", "0:a,b")
	f.place("q", "0:a,c")
	f.define("", f.strategy("p", "one", progressive(1, clusterv1alpha1.RolloutConfig{})), f.strategy("q", "two"))
	f.pass()
	f.hash(map[string]string{"one": "1", "two": "2"})
	f.pass()
	f.mustHave(map[string]string{"a": "two=2", "b": "one=1", "c": "two=2"})
	f.deploy("a b c", true)
	f.pass()
	f.mustProgress(0, "False/Completed/selected clusters 2. configured addons 1/1 completed with no errors, 0 failed 0 timeout.")
	f.mustProgress(1, "False/Completed/selected clusters 2. configured addons 2/2 completed with no errors, 0 failed 0 timeout.")
}

func TestAClustersOwnConfigurationCountsAsDone(t *testing.T) {
	f := newFleet(t, "a b")
	f.place("p", "0:a,b")
	f.define("one others/two", f.strategy("p", ""))
	f.pass()
	b := f.in("b")
	b.Spec.Configs = f.settings("own")
	f.Must(f.Update(context.Background(), b))
	f.pass()
	f.hash(map[string]string{"one": "1", "two": "2", "own": "3"})
	f.pass()
	f.deploy("a b", true)
	f.pass()
	f.mustHave(map[string]string{"a": "two=2! one=1!", "b": "two=2! own=3!"})
	f.mustProgress(0, "False/Completed/selected clusters 2. configured addons 2/2 completed with no errors, 0 failed 0 timeout.")
}

// A selected cluster whose add-on is not there yet is waited for.
func TestClustersWithoutTheAddOnCount(t *testing.T) {
	f := newFleet(t, "a b")
	f.place("p", "0:a")
	f.define("one", f.strategy("p", ""))
	f.pass()
	f.hash(map[string]string{"one": "1"})
	f.pass()
	f.deploy("a", true)
	f.pass()
	f.place("p", "0:a,b")
	f.Reconcile(f.configuration, keyOf(f.definition()))
	f.mustProgress(0, "True/Progressing/selected clusters 2. configured addons 1/2 progressing..., 0 failed 0 timeout.")
}

// Upstream configures no cluster at all then.
func TestAProblemOfAPlacementConcernsItsOwnClusters(t *testing.T) {
	f := newFleet(t, "a b c")
	missing := f.place("p", "0:a")
	f.place("q", "0:b")
	f.place("r", "0:c")
	f.define("", f.strategy("p", "one"), f.strategy("q", "two"), f.strategy("r", "three"))
	f.pass()
	f.Remove(missing)
	d := &clusterv1beta1.PlacementDecision{}
	d.Namespace, d.Name = f.name, "r-decision-0"
	f.Merge(d, `{"metadata":{"labels":{"cluster.open-cluster-management.io/decision-group-index":"x"}}}`)
	f.hash(map[string]string{"two": "2", "three": "3"})
	f.pass()
	f.mustHave(map[string]string{"b": "two=2", "c": "three"})
	f.mustProgress(0, "False/Failed/there is no placement "+f.name+"/p: create it, or take it out of spec.installStrategy.placements")
	f.mustProgress(2, "False/Failed/the label cluster.open-cluster-management.io/decision-group-index of the PlacementDecision "+f.name+`/r-decision-0 is "x", which is no number: leave it to the placement to write its decisions`)
}

// Without maxConcurrency as many go at a time as a decision group may have.
func TestAProgressiveRolloutGoesByTheSizeOfDecisionGroups(t *testing.T) {
	f := newFleet(t, "a b c")
	f.Merge(f.place("p", "0:a,b 1:c"), `{"spec":{"decisionStrategy":{"groupStrategy":{"clustersPerDecisionGroup":2}}}}`)
	f.define("one", f.strategy("p", "", clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.RolloutTypeProgressive}))
	f.pass()
	f.mustHave(map[string]string{"a": "one", "b": "one", "c": ""})
}

func TestADefinitionThatManagesItselfGetsItsDefaultsNamed(t *testing.T) {
	f := newFleet(t, "a")
	f.place("p", "0:a")
	definition := f.define("one", f.strategy("p", "two"))
	f.pass()
	f.Merge(definition, `{"metadata":{"annotations":{%q:"self"}},"spec":{"installStrategy":{"type":"Manual","placements":null}}}`, lifecycle)
	definition = f.definition()
	definition.Spec.SupportedConfigs = append(definition.Spec.SupportedConfigs, addonv1alpha1.ConfigMeta{
		ConfigGroupResource: addonv1alpha1.ConfigGroupResource{Resource: "more"}, DefaultConfig: &addonv1alpha1.ConfigReferent{Name: "x"}})
	f.Must(f.Update(context.Background(), definition))
	f.pass()
	if got := f.definition().Status; len(got.DefaultConfigReferences) != 2 || len(got.InstallProgressions) != 1 {
		t.Errorf("the status is %+v", got)
	}
	f.mustHave(map[string]string{"a": "two"})
}

// An entry that an older manager left without a desired configuration ends
// upstream's manager.
func TestAReferenceWithoutADesiredConfiguration(t *testing.T) {
	f := newFleet(t, "a")
	f.define("one")
	a := f.manual("a", "")
	f.Report(a, `{"status":{"configReferences":[{"group":"example.org","resource":"settings","namespace":"n","name":"one"}]}}`)
	f.pass()
	f.mustHave(map[string]string{"a": "one"})
}
