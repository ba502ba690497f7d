package replicaset

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/override"
	"github.com/muster-fleet/terraform-provider-muster/runtime/rollout"
)

// refusing is a work in a cluster whose agent can't apply one of its config maps.
func refusing(cluster string, messages ...string) workv1.ManifestWork {
	w := fleetWork(cluster, condition("Applied", metav1.ConditionFalse), condition("Available", metav1.ConditionFalse))
	for i, message := range messages {
		w.Status.ResourceStatus.Manifests = append(w.Status.ResourceStatus.Manifests, workv1.ManifestCondition{
			ResourceMeta: workv1.ManifestResourceMeta{Version: "v1", Kind: "ConfigMap", Namespace: "missing", Name: fmt.Sprintf("web-%d", i)},
			Conditions:   []metav1.Condition{{Type: "Applied", Status: metav1.ConditionFalse, Message: message}},
		})
	}
	return w
}

// What the works report ends a wait when it is certain that they will not all be done.
func TestTroublesOfWorks(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	since := func(ago time.Duration, conditions ...metav1.Condition) []metav1.Condition {
		for i := range conditions {
			conditions[i].LastTransitionTime = metav1.NewTime(now.Add(-ago))
		}
		return conditions
	}
	yes, no := metav1.ConditionTrue, metav1.ConditionFalse
	moving := func(ago time.Duration) []metav1.Condition {
		return since(ago, condition("Applied", yes), condition("Progressing", yes), condition("Degraded", no))
	}
	failing := func(ago time.Duration) []metav1.Condition {
		return since(ago, condition("Applied", yes), condition("Progressing", yes), condition("Degraded", yes))
	}
	done := since(time.Hour, condition("Applied", yes), condition("Progressing", no))
	for name, x := range map[string]struct {
		deadline string
		tolerate int
		works    []workv1.ManifestWork
		want     string // the beginning of the trouble's text; "" is none
		after    time.Duration
	}{
		"none":                          {works: []workv1.ManifestWork{fleetWork("a", done...)}},
		"not reported":                  {works: []workv1.ManifestWork{fleetWork("a")}},
		"refused for good":              {works: []workv1.ManifestWork{fleetWork("a"), refusing("b", `ConfigMap "x" is invalid: data: no`)}, want: "b/web-x: ConfigMap missing/web-0", after: 3 * time.Second},
		"refused by a webhook":          {works: []workv1.ManifestWork{refusing("b", `admission webhook "x" denied the request: no`)}, want: "b/web-x", after: 30 * time.Second},
		"a namespace is missing":        {works: []workv1.ManifestWork{refusing("b", `namespaces "missing" not found`)}},
		"failed, none under way":        {works: []workv1.ManifestWork{fleetWork("a", done...), fleetWork("b", failing(time.Minute)...)}, want: stoppedIn, after: 30 * time.Second},
		"failed, others under way":      {works: []workv1.ManifestWork{fleetWork("a"), fleetWork("b", failing(time.Minute)...)}, want: stoppedIn, after: 30 * time.Second},
		"failed as may be":              {tolerate: 1, works: []workv1.ManifestWork{fleetWork("a"), fleetWork("b", failing(time.Minute)...)}},
		"progressing":                   {works: []workv1.ManifestWork{fleetWork("a", moving(time.Hour)...)}},
		"progressing until a deadline":  {deadline: "10m", works: []workv1.ManifestWork{fleetWork("a", moving(9*time.Minute)...)}, want: stoppedIn, after: time.Minute + 3*time.Second},
		"timed out":                     {deadline: "10m", works: []workv1.ManifestWork{fleetWork("a", moving(time.Hour)...)}, want: stoppedIn, after: 3 * time.Second},
		"timed out, and one more":       {deadline: "10m", tolerate: 1, works: []workv1.ManifestWork{fleetWork("a", moving(time.Hour)...), fleetWork("b", moving(8*time.Minute)...)}, want: stoppedIn, after: 2*time.Minute + 3*time.Second},
		"timed out, others to apply":    {deadline: "10m", tolerate: 1, works: []workv1.ManifestWork{fleetWork("a", moving(time.Hour)...), fleetWork("b")}},
		"failed, and may until a while": {deadline: "10m", works: []workv1.ManifestWork{fleetWork("a", failing(time.Minute)...)}, want: stoppedIn, after: 30 * time.Second},
		"failed, and its time is up":    {deadline: "10s", works: []workv1.ManifestWork{fleetWork("a", failing(time.Minute)...)}, want: stoppedIn, after: 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			set := &workv1alpha1.ManifestWorkReplicaSet{}
			set.Spec.PlacementRefs = []workv1alpha1.LocalPlacementReference{{Name: "europe", RolloutStrategy: clusterv1alpha1.RolloutStrategy{
				Type: clusterv1alpha1.RolloutTypeProgressive,
				Progressive: &clusterv1alpha1.RolloutProgressive{RolloutConfig: clusterv1alpha1.RolloutConfig{
					ProgressDeadline: x.deadline, MaxFailures: intstr.FromInt32(int32(x.tolerate)),
				}},
			}}}
			set.Status.PlacementsSummary = []workv1alpha1.PlacementSummary{{Name: "europe", AvailableDecisionGroups: "1 (2 / 5 clusters applied)"}}
			var works []*workv1.ManifestWork
			for _, w := range x.works {
				w.Labels = map[string]string{"work.open-cluster-management.io/placementname": "europe"}
				works = append(works, &w)
			}
			got := troublesOf(set, works, now)
			switch {
			case x.want == "" && len(got) > 0, x.want != "" && len(got) != 1:
				t.Errorf("got %v", got)
			case x.want != "" && (!strings.HasPrefix(got[0].Text, x.want) || got[0].After != x.after):
				t.Errorf("got %v", got[0])
			}
		})
	}
}

// Works that fail alike are told once, in the words of the clusters' API servers.
func TestFailuresAreReportedByCause(t *testing.T) {
	var works []workv1.ManifestWork
	for i := range 37 {
		works = append(works, refusing(fmt.Sprintf("c%02d", i), `namespaces "missing" not found`))
	}
	works = append(works, refusing("rome", "Apply failed with 1 conflict: no"), fleetWork("oslo"))
	want := `Of 39 works, the agents can't apply all objects:
  in 37 clusters (c00, c01, c02 and 34 more): ConfigMap missing/web-0 (objects[1]): namespaces "missing" not found
  in rome: ConfigMap missing/web-0 (objects[1]): Apply failed with 1 conflict: no
To take the fields over from their other managers, `
	if got := attribute.JoinLines(describeFailures(works, workload.Places{"v1/ConfigMap missing/web-0": "objects[1]"})); !strings.HasPrefix(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := describeFailures([]workv1.ManifestWork{fleetWork("oslo")}, nil); got != nil {
		t.Errorf("got %q", got)
	}
	w := refusing("a", "one", "two", "three", "four", "five")
	if got := WorkTrouble(&w); got != "it is not applied: ConfigMap missing/web-0: one; ConfigMap missing/web-1: two; ConfigMap missing/web-2: three; and 2 more" {
		t.Errorf("got %q", got)
	}
}

// A cluster without its own content ends a wait, and says nothing of an override before.
func TestTroublesOfOverrides(t *testing.T) {
	spec := v1alpha1.WorkOverrideSpec{Values: []v1alpha1.OverrideValue{{Name: "REGION", Label: ptr.To("region")}}}
	text, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	const why = "in c1: the value REGION: the cluster has no value"
	for name, x := range map[string]struct {
		digest string
		status metav1.ConditionStatus
		want   []kube.Trouble
	}{
		"a cluster lacks a value": {
			override.Digest(spec), metav1.ConditionFalse, []kube.Trouble{{Text: why, After: workload.LastingPatience}},
		},
		"all have theirs":        {override.Digest(spec), metav1.ConditionTrue, nil},
		"of the override before": {strings.Repeat("0", 64), metav1.ConditionFalse, nil},
	} {
		t.Run(name, func(t *testing.T) {
			set := &workv1alpha1.ManifestWorkReplicaSet{}
			set.Annotations = map[string]string{muster.OverrideAnnotation: string(text)}
			set.Status.Conditions = []metav1.Condition{{
				Type: muster.ConditionOverridden, Status: x.status, Message: rollout.AboutOverride(x.digest) + why,
			}}
			if got := troublesOf(set, nil, time.Now()); !slices.Equal(got, x.want) {
				t.Errorf("got %+v, want %+v", got, x.want)
			}
		})
	}
}
