package decide

import (
	"errors"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/failure"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/manifest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/memory"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/report"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

func TestEviction(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	began := func(ago time.Duration) *metav1.Time { return &metav1.Time{Time: now.Add(-ago)} }
	for name, x := range map[string]struct {
		managed bool
		began   *metav1.Time
		grace   time.Duration
		want    Eviction
	}{
		"the hub has the work":    {true, nil, time.Hour, Eviction{}},
		"the work is back":        {true, began(time.Minute), time.Hour, Eviction{End: true}},
		"the work is gone":        {false, nil, time.Hour, Eviction{Begin: true, After: time.Hour}},
		"within the grace period": {false, began(time.Minute), time.Hour, Eviction{After: 59 * time.Minute}},
		"after it":                {false, began(time.Hour), time.Hour, Eviction{Evict: true}},
		"never":                   {false, began(time.Hour), evictionNever, Eviction{End: true}},
	} {
		if got := Evict(x.managed, x.began, x.grace, now); got != x.want {
			t.Errorf("%s: got %+v, want %+v", name, got, x.want)
		}
	}
}

func TestWorksAreLookedAtAgainWhenThereIsAReason(t *testing.T) {
	const resync = 5 * time.Minute
	for name, x := range map[string]struct {
		object memory.Object
		want   time.Duration
	}{
		"all well":          {memory.Object{}, resync},
		"a correction":      {memory.Object{Applied: memory.Applied{Paused: 4 * time.Second}}, 4 * time.Second},
		"rules that wait":   {memory.Object{Observed: report.Observed{Waits: 10 * time.Second}}, 10 * time.Second},
		"a denied executor": {memory.Object{Applied: memory.Applied{Err: failure.Denied("no")}}, time.Minute},
		"a hidden object":   {memory.Object{Observed: report.Observed{Hidden: true}}, time.Minute},
		"a conflict":        {memory.Object{Applied: memory.Applied{Err: failure.Conflict(errors.New("no"))}}, resync},
	} {
		if got := RequeueAfter(resync, []memory.Object{{}, x.object}); got != x.want {
			t.Errorf("%s: got %s, want %s", name, got, x.want)
		}
	}
}

func TestCompleteWorksStayAsTheyAreWhileARuleSaysSo(t *testing.T) {
	ruled := []*manifest.Manifest{{}, {ConditionRules: []workv1.ConditionRule{{Condition: work.ConditionComplete}}}}
	complete := func(status metav1.ConditionStatus, reason string) *workv1.ManifestWork {
		mw := &workv1.ManifestWork{}
		mw.Status.Conditions = []metav1.Condition{{Type: work.ConditionComplete, Status: status, Reason: reason}}
		return mw
	}
	for name, x := range map[string]struct {
		work      *workv1.ManifestWork
		manifests []*manifest.Manifest
		want      bool
	}{
		"nothing is said":          {&workv1.ManifestWork{}, ruled, false},
		"not complete":             {complete(metav1.ConditionFalse, "ConditionRulesAggregated"), ruled, false},
		"by a rule":                {complete(metav1.ConditionTrue, "ConditionRulesAggregated"), ruled, true},
		"by a rule that is gone":   {complete(metav1.ConditionTrue, "ConditionRulesAggregated"), ruled[:1], false},
		"said by others":           {complete(metav1.ConditionTrue, "Theirs"), ruled[:1], true},
		"by a rule, no manifests":  {complete(metav1.ConditionTrue, "ConditionRulesAggregated"), nil, false},
		"said by others, no rules": {complete(metav1.ConditionTrue, "Theirs"), nil, true},
	} {
		if got := IsComplete(x.work, x.manifests); got != x.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestWhatIsWatched(t *testing.T) {
	configMaps := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	configMap := func(name string) *manifest.Manifest {
		return &manifest.Manifest{GVR: configMaps, Meta: workv1.ManifestResourceMeta{Resource: "configmaps", Namespace: "n", Name: name}}
	}
	hidden, homeless := configMap("hidden"), configMap("homeless")
	manifests := []*manifest.Manifest{configMap("a"), hidden, homeless, {Err: errors.New("no"), UnknownKind: true}}
	known := map[manifest.Key]memory.Object{
		hidden.Key():   {Observed: report.Observed{Hidden: true}},
		homeless.Key(): {Applied: memory.Applied{Err: apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "n")}},
	}
	made := []workv1.AppliedManifestResourceMeta{ResourceMeta(configMap("left"), "0")}
	made[0].Version = "v1"
	var got []string
	for key := range Watched(manifests, known, made) {
		got = append(got, key.Resource+" "+key.Name)
	}
	slices.Sort(got)
	want := []string{"configmaps a", "configmaps homeless", "configmaps left", "customresourcedefinitions ", "namespaces n"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
