package decide

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/manifest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/report"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

func named(name string) *manifest.Manifest {
	return &manifest.Manifest{
		Meta:     workv1.ManifestResourceMeta{Version: "v1", Resource: "configmaps", Namespace: "n", Name: name},
		Hash:     manifest.Hash{1},
		Strategy: workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeUpdate},
		Owned:    true,
	}
}

// world is a work of one manifest whose object was applied before, and has not
// changed.
type world struct {
	Input
	manifest *manifest.Manifest
	last     Result
	version  string
	watched  bool
}

func applied() *world {
	now := time.Unix(1_000_000, 0)
	m := named("a")
	w := &world{
		Input:    Input{Work: &workv1.ManifestWork{}, Owner: "owner", Now: now},
		manifest: m,
		last: Result{
			Applied:  Applied{Hash: m.Hash, Owner: "owner", Allowed: now.Add(-time.Second)},
			Observed: report.Observed{Exists: true, ResourceVersion: "7"},
		},
		version: "7",
		watched: true,
	}
	w.executor("e")
	w.last.Executor = executorName(w.Work.Spec.Executor)
	return w
}

// executor gives the work an executor.
func (w *world) executor(name string) {
	w.Work.Spec.Executor = &workv1.ManifestWorkExecutor{Subject: workv1.ManifestWorkExecutorSubject{
		Type:           workv1.ExecutorSubjectTypeServiceAccount,
		ServiceAccount: &workv1.ManifestWorkSubjectServiceAccount{Namespace: "n", Name: name},
	}}
}

// step is what is decided about the manifest.
func (w *world) step() Step {
	in := w.Input
	in.Manifests = []*manifest.Manifest{w.manifest}
	if in.Last == nil {
		in.Last = map[manifest.Key]Result{w.manifest.Key(): w.last}
	}
	if w.watched {
		in.Versions = map[manifest.Key]string{w.manifest.Key(): w.version}
	}
	return Work(in).Steps[0]
}

func TestNothingIsRequestedWhileNothingCanHaveChanged(t *testing.T) {
	if !applied().step().Unchanged {
		t.Error("what has not changed is applied again")
	}
	for name, change := range map[string]func(*world){
		"it cannot be read":            func(w *world) { w.manifest.Err = errors.New("no") },
		"nothing is remembered":        func(w *world) { w.Last = map[manifest.Key]Result{} },
		"it failed":                    func(w *world) { w.last.Err = errors.New("no") },
		"its object could not be read": func(w *world) { w.last.Fetched = errors.New("no") },
		"a correction is due":          func(w *world) { w.last.Paused = time.Second },
		"the manifest is another":      func(w *world) { w.manifest.Hash = manifest.Hash{2} },
		"the owner is another":         func(w *world) { w.Owner = "new" },
		"the executor is another":      func(w *world) { w.executor("f") },
		"the rights are those of a minute ago": func(w *world) {
			w.last.Allowed = w.Now.Add(-time.Minute)
		},
		"the object is another":     func(w *world) { w.version = "8" },
		"the object is not watched": func(w *world) { w.watched = false },
		"there is no object": func(w *world) {
			w.last.Exists, w.last.ResourceVersion, w.version = false, "", ""
		},
	} {
		w := applied()
		change(w)
		if w.step().Unchanged {
			t.Errorf("%s: nothing is requested", name)
		}
	}
	for name, change := range map[string]func(*world){
		"rights that nobody has to have": func(w *world) {
			w.Work.Spec.Executor, w.last.Executor, w.last.Allowed = nil, "", time.Time{}
		},
		"a missing object that is only read": func(w *world) {
			w.manifest.Strategy.Type = workv1.UpdateStrategyTypeReadOnly
			w.last.Exists, w.last.ResourceVersion, w.version = false, "", ""
		},
	} {
		w := applied()
		change(w)
		if !w.step().Unchanged {
			t.Errorf("%s: something is requested", name)
		}
	}
}

func TestOnlyWhatWasAppliedBeforeIsCorrected(t *testing.T) {
	for name, x := range map[string]struct {
		change func(*world)
		want   bool
	}{
		"applied before":     {func(*world) {}, true},
		"failed":             {func(w *world) { w.last.Err = errors.New("no") }, false},
		"another manifest":   {func(w *world) { w.manifest.Hash = manifest.Hash{2} }, false},
		"nothing remembered": {func(w *world) { w.Last = map[manifest.Key]Result{} }, false},
	} {
		w := applied()
		x.change(w)
		if got := w.step().Correct; got != x.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestCorrectionsOfContestedObjectsWait(t *testing.T) {
	w := applied()
	w.last.Corrections = Corrections{count: freeCorrections, last: w.Now}
	if got := w.step().Pause; got != firstPause {
		t.Errorf("the next correction waits %s, want %s", got, firstPause)
	}
}

func TestCompleteWorksStayAsTheyAreWhileARuleSaysSo(t *testing.T) {
	rule := []workv1.ConditionRule{{Condition: work.ConditionComplete}}
	ruled := []*manifest.Manifest{named("a"), {Hash: manifest.Hash{1}, ConditionRules: rule}}
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
		plan := Work(Input{Work: x.work, Manifests: x.manifests})
		if plan.Complete != x.want {
			t.Errorf("%s: got %v", name, plan.Complete)
		}
		for _, s := range plan.Steps {
			if s.Observe != x.want || x.want && s.Result.Hash != (manifest.Hash{}) {
				t.Errorf("%s: the step is %+v", name, s)
			}
		}
	}
}

func TestOnlyNewObjectsOfTheWorkAreAnnounced(t *testing.T) {
	known, fresh, orphan, unread := named("known"), named("fresh"), named("orphan"), named("unread")
	orphan.Owned, unread.Err = false, errors.New("no")
	plan := Work(Input{
		Work: &workv1.ManifestWork{}, Manifests: []*manifest.Manifest{known, fresh, orphan, unread},
		Listed: []workv1.AppliedManifestResourceMeta{ResourceMeta(known, "0")},
	})
	if got, want := names(plan.Announced), "known=0 fresh="; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, s := range plan.Steps {
		if s.New != (s.Manifest == fresh) {
			t.Errorf("%s is new: %v", s.Manifest.Meta.Name, s.New)
		}
	}
}

// Of the objects a (in the work) and b (which has left it).
func TestWhatTheWorkNoLongerHoldsIsDropped(t *testing.T) {
	for name, x := range map[string]struct {
		conditions    []metav1.Condition
		dropped, kept string
	}{
		"applied before":                 {[]metav1.Condition{{Type: work.ConditionApplied}}, "b=1", ""},
		"a work that is new for the hub": {nil, "", "b=1"},
	} {
		mw := &workv1.ManifestWork{Status: workv1.ManifestWorkStatus{Conditions: x.conditions}}
		plan := Work(Input{
			Work: mw, Manifests: []*manifest.Manifest{named("a")},
			Listed: []workv1.AppliedManifestResourceMeta{ResourceMeta(named("a"), "0"), ResourceMeta(named("b"), "1")},
		})
		if names(plan.Dropped) != x.dropped || names(plan.Kept) != x.kept {
			t.Errorf("%s: dropped %q, kept %q", name, names(plan.Dropped), names(plan.Kept))
		}
	}
}

func names(list []workv1.AppliedManifestResourceMeta) string {
	var out []string
	for _, r := range list {
		out = append(out, r.Name+"="+r.UID)
	}
	return strings.Join(out, " ")
}
