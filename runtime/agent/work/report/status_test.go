package report

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/manifest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

func TestWorkConditionsFollowFromThoseOfTheManifests(t *testing.T) {
	ok, missing := Outcome{Observed: Observed{Exists: true}}, Outcome{}
	failed, unread := Outcome{Applied: errors.New("no"), Observed: Observed{Exists: true}}, Outcome{Observed: Observed{Fetched: errors.New("no")}}
	denied := Outcome{Applied: errors.New("no"), Observed: Observed{Fetched: errors.New("may not get"), Hidden: true}}
	for name, x := range map[string]struct {
		outcomes           []Outcome
		applied, available string // reasons
		message            string // of Available
	}{
		"all well":               {[]Outcome{ok, ok}, "AppliedManifestWorkComplete", "ResourcesAvailable", "All resources are available"},
		"one failed":             {[]Outcome{ok, failed}, "AppliedManifestWorkFailed", "ResourcesAvailable", "All resources are available"},
		"one missing":            {[]Outcome{ok, missing}, "AppliedManifestWorkComplete", "ResourcesNotAvailable", "1 of 2 resources are not available"},
		"one unknown":            {[]Outcome{ok, unread}, "AppliedManifestWorkComplete", "ResourcesStatusUnknown", "1 of 2 resources have unknown status"},
		"missing beats unknown":  {[]Outcome{missing, unread}, "AppliedManifestWorkComplete", "ResourcesNotAvailable", "1 of 2 resources are not available"},
		"denied":                 {[]Outcome{ok, denied}, "AppliedManifestWorkFailed", "ResourcesNotAvailable", "1 of 2 resources are not available"},
		"nothing can be learned": {[]Outcome{unread}, "AppliedManifestWorkComplete", "ResourcesStatusUnknown", "cannot get any available resource "},
	} {
		t.Run(name, func(t *testing.T) {
			var manifests []*manifest.Manifest
			for i := range x.outcomes {
				manifests = append(manifests, &manifest.Manifest{
					Meta: workv1.ManifestResourceMeta{Ordinal: int32(i), Name: "a", Resource: "configmaps"},
					GVR:  schema.GroupVersionResource{Version: "v1", Resource: "configmaps"},
				})
			}
			mw := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Generation: 7}}
			got := Status(mw, manifests, x.outcomes, true)
			applied := meta.FindStatusCondition(got.Conditions, work.ConditionApplied)
			available := meta.FindStatusCondition(got.Conditions, work.ConditionAvailable)
			if applied.Reason != x.applied || applied.ObservedGeneration != 7 {
				t.Errorf("Applied: %+v, want reason %s for generation 7", applied, x.applied)
			}
			if available.Reason != x.available || available.Message != x.message {
				t.Errorf("Available: %+v, want %s: %s", available, x.available, x.message)
			}
			mw.Status = got
			if again := Status(mw, manifests, x.outcomes, true); !metaEqual(got, again) {
				t.Errorf("the same outcomes change the status:\n%+v\n%+v", got, again)
			}
		})
	}
}

func metaEqual(a, b workv1.ManifestWorkStatus) bool {
	if len(a.Conditions) != len(b.Conditions) || len(a.ResourceStatus.Manifests) != len(b.ResourceStatus.Manifests) {
		return false
	}
	for i := range a.Conditions {
		if a.Conditions[i] != b.Conditions[i] {
			return false
		}
	}
	return true
}

func TestConditionOfANewGenerationHasANewTime(t *testing.T) {
	old := metav1.Date(2020, 1, 1, 0, 0, 0, 0, metav1.Now().Location())
	conditions := []metav1.Condition{{Type: "Applied", Status: metav1.ConditionTrue, ObservedGeneration: 1, LastTransitionTime: old}}
	set(&conditions, metav1.Condition{Type: "Applied", Status: metav1.ConditionTrue, ObservedGeneration: 1})
	if !conditions[0].LastTransitionTime.Equal(&old) {
		t.Error("the same generation: the time changed")
	}
	set(&conditions, metav1.Condition{Type: "Applied", Status: metav1.ConditionTrue, ObservedGeneration: 2})
	if conditions[0].LastTransitionTime.Equal(&old) {
		t.Error("a new generation: the time stayed")
	}
}

func TestStatusEntryIsFoundAlsoWhereAManifestMoved(t *testing.T) {
	entry := func(ordinal int32, name string) workv1.ManifestCondition {
		return workv1.ManifestCondition{ResourceMeta: workv1.ManifestResourceMeta{Ordinal: ordinal, Name: name}}
	}
	entries := []workv1.ManifestCondition{entry(0, "a"), entry(1, "b"), entry(2, "b")}
	for name, x := range map[string]struct {
		ordinal int32
		object  string
		want    *workv1.ManifestCondition
	}{
		"in its place":  {0, "a", &entries[0]},
		"moved":         {4, "a", &entries[0]},
		"ambiguous":     {4, "b", nil},
		"one of both":   {2, "b", &entries[2]},
		"not there yet": {0, "c", nil},
	} {
		if got := manifest.EntriesOf(entries).Find(workv1.ManifestResourceMeta{Ordinal: x.ordinal, Name: x.object}); got != x.want {
			t.Errorf("%s: got %v, want %v", name, got, x.want)
		}
	}
}

// What an executor may not get counts as not available when it was not applied, and
// as unknown when that is not what went wrong. Neither says whether it is there.
func TestAvailabilityOfWhatTheExecutorMayNotGet(t *testing.T) {
	m := &manifest.Manifest{
		Meta: workv1.ManifestResourceMeta{Name: "a", Resource: "configmaps"},
		GVR:  schema.GroupVersionResource{Version: "v1", Resource: "configmaps"},
	}
	hidden := Observed{Hidden: true, Fetched: errors.New("e may not get the configmaps a")}
	for name, x := range map[string]struct {
		outcome Outcome
		want    metav1.Condition
	}{
		"not applied": {Outcome{Applied: errors.New("no"), Observed: hidden}, metav1.Condition{
			Status: metav1.ConditionFalse, Reason: work.ReasonResourceMissing, Message: "Resource is not available: e may not get the configmaps a",
		}},
		"complete": {Outcome{Kept: true, Observed: hidden}, metav1.Condition{
			Status: metav1.ConditionUnknown, Reason: work.ReasonFetchFailed, Message: "Failed to fetch resource: e may not get the configmaps a",
		}},
	} {
		x.want.Type = work.ConditionAvailable
		if got := availability(m, x.outcome); got != x.want {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

// A contested object is told of as long as it is, and not to an executor that may not
// get the object.
func TestContestedObjectsAreReported(t *testing.T) {
	manifests := []*manifest.Manifest{{Meta: workv1.ManifestResourceMeta{Name: "a", Resource: "configmaps"}, GVR: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}}}
	there := Observed{Exists: true}
	for name, x := range map[string]struct {
		outcome Outcome
		want    string
	}{
		"left alone":      {Outcome{Rivals: []string{"b"}, Observed: there}, ""},
		"by a controller": {Outcome{Contested: true, Observed: there}, "Make sure that no controller sets what the manifest sets"},
		"by a work":       {Outcome{Contested: true, Rivals: []string{"b"}, Observed: there}, "The work b holds it, too"},
		"by works":        {Outcome{Contested: true, Rivals: []string{"b", "c"}, Observed: there}, "The works b, c hold it, too"},
		"hidden":          {Outcome{Contested: true, Observed: Observed{Exists: true, Hidden: true}}, ""},
		"complete":        {Outcome{Contested: true, Kept: true, Observed: there}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			mw := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Generation: 3}}
			mw.Status = Status(mw, manifests, []Outcome{{Contested: true, Rivals: []string{"before"}, Observed: there}}, true)
			got := meta.FindStatusCondition(Status(mw, manifests, []Outcome{x.outcome}, true).ResourceStatus.Manifests[0].Conditions, work.ConditionContested)
			switch {
			case x.want == "" && got != nil:
				t.Errorf("got %+v", got)
			case x.want != "" && (got == nil || !strings.Contains(got.Message, x.want) || got.ObservedGeneration != 3):
				t.Errorf("got %+v, want %q", got, x.want)
			}
		})
	}
}
