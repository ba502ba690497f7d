package addon

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// The configuration of these tests: the template t with a hash.
func hashed(hash string) *v1alpha1.ConfigSpecHash {
	return &v1alpha1.ConfigSpecHash{ConfigReferent: v1alpha1.ConfigReferent{Name: "t"}, SpecHash: hash}
}

// progressed is an add-on from the template t in one placement; the hub reports for it
// a reason, a message, and the hashes that are desired and applied.
func progressed(reason, message, desired, applied string) *v1alpha1.ClusterManagementAddOn {
	object := &v1alpha1.ClusterManagementAddOn{}
	object.Name = "a"
	object.Spec.SupportedConfigs = []v1alpha1.ConfigMeta{{ConfigGroupResource: ownKind(addon.TemplateResource), DefaultConfig: &v1alpha1.ConfigReferent{Name: "t"}}}
	ref := v1alpha1.PlacementRef{Namespace: "n", Name: "p"}
	object.Spec.InstallStrategy = v1alpha1.InstallStrategy{Type: v1alpha1.InstallStrategyPlacements, Placements: []v1alpha1.PlacementStrategy{{
		PlacementRef: ref,
		RolloutStrategy: clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.RolloutTypeProgressive, Progressive: &clusterv1alpha1.RolloutProgressive{
			RolloutConfig: clusterv1alpha1.RolloutConfig{ProgressDeadline: "1m"},
		}},
	}}}
	status := metav1.ConditionTrue
	if reason != addon.ReasonProgressing {
		status = metav1.ConditionFalse
	}
	object.Status.InstallProgressions = []v1alpha1.InstallProgression{{
		PlacementRef:     ref,
		ConfigReferences: []v1alpha1.InstallConfigReference{{ConfigGroupResource: ownKind(addon.TemplateResource), DesiredConfig: hashed(desired), LastAppliedConfig: hashed(applied)}},
		Conditions:       []metav1.Condition{{Type: addon.ConditionProgressing, Status: status, Reason: reason, Message: message}},
	}}
	return object
}

func TestWhatIsRolledOut(t *testing.T) {
	done := func(change func(*v1alpha1.ClusterManagementAddOn)) *v1alpha1.ClusterManagementAddOn {
		object := progressed(addon.ReasonCompleted, "done", "1", "1")
		if change != nil {
			change(object)
		}
		return object
	}
	template := v1alpha1.AddOnConfig{ConfigGroupResource: ownKind(addon.TemplateResource), ConfigReferent: v1alpha1.ConfigReferent{Name: "t"}}
	for name, test := range map[string]struct {
		object *v1alpha1.ClusterManagementAddOn
		hashes hashesOf
		want   string
	}{
		"completed":                           {done(nil), nil, ""},
		"completed with the present template": {done(nil), hashesOf{template: "1"}, ""},
		"completed with a former one":         {done(nil), hashesOf{template: "2"}, "not reported on its present configuration"},
		"about to roll out a new one":         {progressed(addon.ReasonCompleted, "done", "2", "1"), nil, "Completed: done"},
		"under way":                           {progressed(addon.ReasonProgressing, "1/3", "1", "1"), nil, "Progressing: 1/3"},
		"later placements have its clusters":  {progressed(addon.ReasonProgressing, "selected clusters 2. configured addons 0/0 progressing..., 0 failed 0 timeout.", "1", ""), nil, ""},
		"nothing is selected":                 {progressed(addon.ReasonProgressing, "selected clusters 0. configured addons 0/0 progressing..., 0 failed 0 timeout.", "1", ""), nil, "selected clusters 0"},
		"a placement is missing":              {progressed(addon.ReasonFailed, "there is no placement", "1", "1"), nil, "Failed: there is no placement"},
		"another template since":              {done(func(a *v1alpha1.ClusterManagementAddOn) { a.Spec.SupportedConfigs[0].DefaultConfig.Name = "u" }), nil, "not reported on its present configuration"},
		"a placement's own configuration since": {done(func(a *v1alpha1.ClusterManagementAddOn) {
			a.Spec.InstallStrategy.Placements[0].Configs = []v1alpha1.AddOnConfig{{ConfigGroupResource: v1alpha1.ConfigGroupResource{Resource: "configmaps"}, ConfigReferent: v1alpha1.ConfigReferent{Name: "c"}}}
		}), nil, "not reported on its present configuration"},
		"nothing reported":  {done(func(a *v1alpha1.ClusterManagementAddOn) { a.Status.InstallProgressions = nil }), nil, "not reported on it yet"},
		"no condition":      {done(func(a *v1alpha1.ClusterManagementAddOn) { a.Status.InstallProgressions[0].Conditions = nil }), nil, "not reported on it yet"},
		"another placement": {done(func(a *v1alpha1.ClusterManagementAddOn) { a.Spec.InstallStrategy.Placements[0].Name = "q" }), nil, "not reported on it yet"},
		"without a desired one": {done(func(a *v1alpha1.ClusterManagementAddOn) {
			a.Status.InstallProgressions[0].ConfigReferences[0].DesiredConfig = nil
		}), nil, "not reported on its present configuration"},
	} {
		t.Run(name, func(t *testing.T) {
			held := notRolledOut(test.object, test.hashes)
			switch {
			case test.want == "" && len(held) > 0:
				t.Errorf("held: %s", held[0])
			case test.want != "" && (len(held) != 1 || !strings.Contains(held[0], test.want)):
				t.Errorf("got %+v, want %q", held, test.want)
			}
		})
	}
}

// inCluster is the add-on a in a cluster, with the hashes that are desired and applied,
// and conditions as Type=Status/Reason.
func inCluster(name, desired, applied string, conditions ...string) *v1alpha1.ManagedClusterAddOn {
	x := &v1alpha1.ManagedClusterAddOn{}
	x.Namespace, x.Name = name, "a"
	x.Status.ConfigReferences = []v1alpha1.ConfigReference{{ConfigGroupResource: ownKind(addon.TemplateResource), DesiredConfig: hashed(desired), LastAppliedConfig: hashed(applied)}}
	for _, text := range conditions {
		kind, rest, _ := strings.Cut(text, "=")
		status, reason, _ := strings.Cut(rest, "/")
		x.Status.Conditions = append(x.Status.Conditions, metav1.Condition{
			Type: kind, Status: metav1.ConditionStatus(status), Reason: reason, Message: "why", LastTransitionTime: metav1.NewTime(time.Now().Add(-5 * time.Minute)),
		})
	}
	return x
}

var (
	fine    = []string{"Configured=True/ConfigurationsConfigured", "Progressing=False/Completed", "Available=True/ProbeAvailable"}
	stuck   = []string{"Configured=True/ConfigurationsConfigured", "Progressing=True/Progressing", "Available=True/ProbeAvailable"}
	waiting = []string{"Configured=False/ConfigurationsNotConfigured", "Progressing=False/Completed", "Available=True/ProbeAvailable"}
)

func TestWhenARolloutHasStopped(t *testing.T) {
	counts := func(busy, failed, gaveUp int) string {
		return fmt.Sprintf("selected clusters 3. configured addons %d/3 progressing..., %d failed %d timeout.", busy, failed, gaveUp)
	}
	all := []*v1alpha1.ManagedClusterAddOn{
		inCluster("c1", "2", "2", fine...), inCluster("c2", "2", "1", stuck...), inCluster("c3", "1", "1", waiting...),
	}
	for name, test := range map[string]struct {
		reason, message string
		addOns          []*v1alpha1.ManagedClusterAddOn
		want            bool
	}{
		"one done, one given up, one waiting": {addon.ReasonProgressing, counts(1, 0, 1), all, true},
		"one done, one failed, one waiting":   {addon.ReasonProgressing, counts(1, 1, 0), all, true},
		"another one is under way":            {addon.ReasonProgressing, counts(2, 0, 1), all, false},
		"none has failed":                     {addon.ReasonProgressing, counts(1, 0, 0), all, false},
		"the clusters were not read":          {addon.ReasonProgressing, counts(1, 0, 1), nil, false},
		"a message of another manager":        {addon.ReasonProgressing, "busy", all, false},
		"completed":                           {addon.ReasonCompleted, "selected clusters 3. configured addons 3/3 completed with no errors, 0 failed 0 timeout.", all, false},
	} {
		t.Run(name, func(t *testing.T) {
			applied := "1"
			if test.reason == addon.ReasonCompleted {
				applied = "2"
			}
			if got := isStopped(progressed(test.reason, test.message, "2", applied), test.addOns); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

// A message names the clusters that hold an add-on up with the reason, and those that
// the rollout has not reached.
func TestDescriptionNamesTheClusters(t *testing.T) {
	object := progressed(addon.ReasonProgressing, "", "2", "1")
	broken := workv1.ManifestWork{}
	broken.Namespace, broken.Name = "c2", "addon-a-deploy-0"
	broken.Status.Conditions = []metav1.Condition{{Type: work.ConditionApplied, Status: metav1.ConditionFalse, Reason: "AppliedManifestWorkFailed", Message: "no namespace"}, {Type: work.ConditionAvailable, Status: metav1.ConditionTrue}}
	text := strings.Join(describeClusters(object, []*v1alpha1.ManagedClusterAddOn{
		inCluster("c1", "2", "2", fine...), inCluster("c2", "2", "1", stuck...), inCluster("c3", "1", "1", waiting...),
		inCluster("c4", "2", "2", "Configured=True/x", "Progressing=False/Completed"),
		inCluster("c5", "2", "2", "Configured=True/x", "Progressing=False/Completed", "Available=False/ProbeUnavailable", "ManifestApplied=False/ManifestWorkApplyFailed"),
	}, map[string][]workv1.ManifestWork{"c2": {broken}}), "\n")
	for _, want := range []string{
		"  c2: Progressing is True (Progressing, for 5m", "that is longer than progress_deadline (1m), so the rollout has given up on it",
		"    work c2/addon-a-deploy-0: Applied is False (AppliedManifestWorkFailed): no namespace",
		"  c4: nothing reports Available yet",
		"  c5: ManifestApplied is False (ManifestWorkApplyFailed, for 5m", "Available is False (ProbeUnavailable",
		"The rollout has stopped, because more clusters have failed than max_failures allows. Clusters that it has not reached, and that keep what they have: c3.",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in:\n%s", want, text)
		}
	}
	if strings.Contains(text, "c1") {
		t.Errorf("c1 holds nothing up:\n%s", text)
	}
}

// A wait ends before its timeout when the rollout stays stopped, or an agent can't apply
// the add-on's objects; not when a cluster recovers, nor for the works of others.
func TestTroublesOfAnAddOn(t *testing.T) {
	refusing := func(cluster string) *workv1.ManifestWork {
		w := &workv1.ManifestWork{}
		w.Namespace, w.Name = cluster, "addon-a-deploy-0"
		w.Status.Conditions = []metav1.Condition{{Type: work.ConditionApplied, Status: metav1.ConditionFalse}}
		w.Status.ResourceStatus.Manifests = []workv1.ManifestCondition{{
			ResourceMeta: workv1.ManifestResourceMeta{Kind: "ConfigMap", Name: "x"},
			Conditions:   []metav1.Condition{{Type: work.ConditionApplied, Status: metav1.ConditionFalse, Message: `ConfigMap "x" is invalid: no`}},
		}}
		return w
	}
	const halted = "selected clusters 1. configured addons 0/1 progressing..., 0 failed 1 timeout."
	const moving = "selected clusters 1. configured addons 1/1 progressing..., 0 failed 0 timeout."
	for name, x := range map[string]struct {
		message string
		works   []*workv1.ManifestWork
		want    []kube.Trouble
	}{
		"stopped":                {halted, nil, []kube.Trouble{{Text: stopped, After: 30 * time.Second}}},
		"goes on":                {moving, nil, nil},
		"an agent can't apply":   {moving, []*workv1.ManifestWork{refusing("c2")}, []kube.Trouble{{Text: "c2/addon-a-deploy-0: ConfigMap x: ConfigMap \"x\" is invalid: no", After: 30 * time.Second}}},
		"of a cluster that left": {moving, []*workv1.ManifestWork{refusing("c9")}, nil},
		"before its turn":        {moving, []*workv1.ManifestWork{refusing("c3")}, nil},
	} {
		a := &awaited{
			wait:   &waitModel{RolledOut: types.BoolValue(true)},
			object: progressed(addon.ReasonProgressing, x.message, "2", "1"), works: x.works,
			addOns: []*v1alpha1.ManagedClusterAddOn{inCluster("c2", "2", "1", stuck...), inCluster("c3", "1", "1", waiting...)},
		}
		if got := a.troubles(); !slices.Equal(got, x.want) {
			t.Errorf("%s: got %v, want %v", name, got, x.want)
		}
	}
}

// A destroy that takes too long names the clusters, and the jobs that have not
// completed.
func TestRemovalNamesWhatIsLeft(t *testing.T) {
	text := func(s string) *string { return &s }
	hook := workv1.ManifestWork{}
	hook.Namespace, hook.Name = "c1", addon.PreDeleteWorkName("a")
	manifest := func(kind, name string, values ...workv1.FeedbackValue) workv1.ManifestCondition {
		return workv1.ManifestCondition{ResourceMeta: workv1.ManifestResourceMeta{Kind: kind, Namespace: "default", Name: name}, StatusFeedbacks: workv1.StatusFeedbackResult{Values: values}}
	}
	hook.Status.ResourceStatus.Manifests = []workv1.ManifestCondition{
		manifest("Job", "done", workv1.FeedbackValue{Name: "JobComplete", Value: workv1.FieldValue{String: text("True")}}),
		manifest("Job", "farewell", workv1.FeedbackValue{Name: "JobComplete", Value: workv1.FieldValue{String: text("False")}}),
		manifest("Pod", "cleaner"),
	}
	left := inCluster("c1", "1", "1")
	left.DeletionTimestamp = &metav1.Time{Time: time.Now().Add(-time.Minute)}
	left.Finalizers = []string{"addon.open-cluster-management.io/addon-pre-delete"}
	got := describeRemoval([]*v1alpha1.ManagedClusterAddOn{left, inCluster("c2", "1", "1")}, map[string][]workv1.ManifestWork{"c1": {hook}}, time.Minute, time.Now())
	for _, want := range []string{
		"1m after its deletion was asked for, the add-on was still in 2 clusters:", "  c1:", "Finalizer addon.open-cluster-management.io/addon-pre-delete",
		"Job default/farewell has to complete before the add-on goes, and reports JobComplete = False",
		"Pod default/cleaner has to complete before the add-on goes, and has not reported anything", "  c2:", "Its deletion has not begun",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in:\n%s", want, got)
		}
	}
	left.Status.Conditions = []metav1.Condition{{Type: addon.ConditionHookManifestCompleted, Status: metav1.ConditionFalse, Message: "Job default/farewell has failed: backoff limit"}}
	got = describeRemoval([]*v1alpha1.ManagedClusterAddOn{left}, map[string][]workv1.ManifestWork{"c1": {hook}}, time.Minute, time.Now())
	if !strings.Contains(got, "farewell has failed: backoff limit") || strings.Contains(got, "farewell has to complete") {
		t.Errorf("a job that has failed is described as:\n%s", got)
	}
	if strings.Contains(got, "default/done") {
		t.Errorf("a job that has completed is named:\n%s", got)
	}
}
