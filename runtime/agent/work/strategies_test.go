package work_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testenv"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work"
	apiwork "github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// Each update strategy in each situation. The manifest is a config map with
// key=one and keep=x; another client sets key=theirs and extra=y.

// situations are what an object can be in when an agent looks at its manifest.
type situations struct {
	created     end // nothing was there
	unchanged   end // a new agent finds everything as it should be
	drifted     end // somebody edited the object
	changed     end // the manifest says key=two now
	taken       end // somebody else made the object before
	deleted     end // somebody deleted the object
	lostRace    end // somebody else makes it while the agent does
	otherWrites end // another client writes while the agent repairs a drift
	dropped     end // the work does not hold it any more
}

// end is what comes out in a situation.
type end struct {
	data  string // of the object, as sorted key=value; - when there is none
	owned bool
	// failed is part of the message of a failed apply.
	failed string
}

const gone = "-"

func strategies() map[string]struct {
	strategy workv1.UpdateStrategy
	situations
} {
	apply := func(force bool, ignore ...workv1.IgnoreField) workv1.UpdateStrategy {
		return workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeServerSideApply, ServerSideApply: &workv1.ServerSideApplyConfig{Force: force, IgnoreFields: ignore}}
	}
	ignore := func(c workv1.IgnoreFieldsCondition) workv1.IgnoreField {
		return workv1.IgnoreField{Condition: c, JSONPaths: []string{".data.key"}}
	}
	const mine, both, theirs = "keep=x key=one", "extra=y keep=x key=one", "extra=y key=theirs"
	const conflict = `Failed to apply manifest: Apply failed with 1 conflict: conflict with "somebody" using v1: .data.key`
	return map[string]struct {
		strategy workv1.UpdateStrategy
		situations
	}{
		"Update": {workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeUpdate}, situations{
			created: end{mine, true, ""}, unchanged: end{mine, true, ""},
			drifted: end{mine, true, ""},
			changed: end{"keep=x key=two", true, ""},
			taken:   end{mine, true, ""}, deleted: end{mine, true, ""}, lostRace: end{mine, true, ""}, otherWrites: end{mine, true, ""},
			dropped: end{gone, false, ""},
		}},
		"CreateOnly": {workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeCreateOnly}, situations{
			created: end{mine, true, ""}, unchanged: end{mine, true, ""},
			drifted: end{"extra=y keep=x key=theirs", true, ""},
			changed: end{mine, true, ""},
			taken:   end{theirs, true, ""}, deleted: end{mine, true, ""}, lostRace: end{theirs, true, ""}, otherWrites: end{"extra=y keep=x key=theirs", true, ""},
			dropped: end{gone, false, ""},
		}},
		"ReadOnly": {workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeReadOnly}, situations{
			created: end{gone, false, ""}, unchanged: end{theirs, false, ""},
			drifted: end{theirs, false, ""},
			changed: end{theirs, false, ""},
			taken:   end{theirs, false, ""}, deleted: end{gone, false, ""}, lostRace: end{gone, false, ""}, otherWrites: end{theirs, false, ""},
			dropped: end{theirs, false, ""},
		}},
		"ServerSideApply": {apply(false), situations{
			created: end{mine, true, ""}, unchanged: end{mine, true, ""},
			drifted: end{"extra=y keep=x key=theirs", true, conflict},
			changed: end{"keep=x key=two", true, ""},
			taken:   end{theirs, false, conflict}, deleted: end{mine, true, ""}, lostRace: end{theirs, false, conflict}, otherWrites: end{"extra=y keep=x key=theirs", true, conflict},
			dropped: end{gone, false, ""},
		}},
		"ServerSideApply by force": {apply(true), situations{
			created: end{mine, true, ""}, unchanged: end{mine, true, ""},
			drifted: end{both, true, ""},
			changed: end{"keep=x key=two", true, ""},
			taken:   end{both, true, ""}, deleted: end{mine, true, ""}, lostRace: end{both, true, ""}, otherWrites: end{both, true, ""},
			dropped: end{gone, false, ""},
		}},
		"ServerSideApply, key ignored once present": {apply(true, ignore(workv1.IgnoreFieldsConditionOnSpokePresent)), situations{
			created: end{mine, true, ""}, unchanged: end{mine, true, ""},
			drifted: end{"extra=y keep=x key=theirs", true, ""},
			changed: end{mine, true, ""},
			taken:   end{"extra=y keep=x key=theirs", true, ""}, deleted: end{mine, true, ""}, lostRace: end{both, true, ""}, otherWrites: end{"extra=y keep=x key=theirs", true, ""},
			dropped: end{gone, false, ""},
		}},
		"ServerSideApply, key ignored on change": {apply(true, ignore(workv1.IgnoreFieldsConditionOnSpokeChange)), situations{
			created: end{mine, true, ""}, unchanged: end{mine, true, ""},
			drifted: end{"extra=y keep=x key=theirs", true, ""},
			changed: end{"keep=x key=two", true, ""},
			taken:   end{both, true, ""}, deleted: end{mine, true, ""}, lostRace: end{both, true, ""}, otherWrites: end{"extra=y keep=x key=theirs", true, ""},
			dropped: end{gone, false, ""},
		}},
	}
}

// stage is a work with one manifest, of a strategy.
type stage struct {
	*fixture
	link     *link
	strategy workv1.UpdateStrategy
	work     *workv1.ManifestWork
}

func newStage(t *testing.T, s workv1.UpdateStrategy) *stage {
	l := &link{}
	return &stage{fixture: newFixtureBehind(t, l.wrap), link: l, strategy: s}
}

func (s *stage) text(value string) workv1.Manifest {
	return s.manifest(`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: TARGET}, data: {key: ` + value + `, keep: x}}`)
}

// put creates the work. Its feedback tells which state of the object the agent
// has seen.
func (s *stage) put() {
	s.t.Helper()
	s.work = s.create("w", func(spec *workv1.ManifestWorkSpec) {
		spec.ManifestConfigs = []workv1.ManifestConfigOption{{
			ResourceIdentifier: workv1.ResourceIdentifier{Resource: "configmaps", Namespace: "*", Name: "*"}, UpdateStrategy: &s.strategy,
			FeedbackRules: []workv1.FeedbackRule{{Type: workv1.FeedbackTypeJSONPaths, JSONPaths: []workv1.JSONPath{{Name: "version", Path: ".metadata.resourceVersion"}}}},
		}}
	}, s.text("one"))
}

// others makes or changes the object on somebody else's behalf.
func (s *stage) others() {
	s.t.Helper()
	testenv.Eventually(s.t, func() error { return s.tryOthers() })
}

func (s *stage) tryOthers() error {
	cm := &corev1.ConfigMap{}
	err := s.client.Get(context.Background(), types.NamespacedName{Namespace: s.target, Name: "a"}, cm)
	cm.Namespace, cm.Name = s.target, "a"
	if cm.Data == nil {
		cm.Data = map[string]string{}
	}
	cm.Data["key"], cm.Data["extra"] = "theirs", "y"
	if apierrors.IsNotFound(err) {
		return s.client.Create(context.Background(), cm, client.FieldOwner("somebody"))
	}
	if err != nil {
		return err
	}
	return s.client.Update(context.Background(), cm, client.FieldOwner("somebody"))
}

// ends waits until the agent reports on the object as it is, and that is as it
// should be.
func (s *stage) ends(want end) {
	s.t.Helper()
	testenv.Eventually(s.t, func() error {
		cm := &corev1.ConfigMap{}
		err := s.client.Get(context.Background(), types.NamespacedName{Namespace: s.target, Name: "a"}, cm)
		s.must(client.IgnoreNotFound(err))
		have := gone
		if err == nil {
			var items []string
			for _, k := range slices.Sorted(maps.Keys(cm.Data)) {
				items = append(items, k+"="+cm.Data[k])
			}
			have = strings.Join(items, " ")
		}
		if have != want.data || (len(cm.OwnerReferences) == 1) != want.owned {
			return fmt.Errorf("the object is %q with the owners %v, want %+v", have, cm.OwnerReferences, want)
		}
		s.must(s.client.Get(context.Background(), client.ObjectKeyFromObject(s.work), s.work))
		if len(s.work.Status.ResourceStatus.Manifests) != 1 {
			return fmt.Errorf("the status has %d manifests", len(s.work.Status.ResourceStatus.Manifests))
		}
		m := s.work.Status.ResourceStatus.Manifests[0]
		applied, available := meta.FindStatusCondition(m.Conditions, apiwork.ConditionApplied), meta.FindStatusCondition(m.Conditions, apiwork.ConditionAvailable)
		if applied == nil || available == nil || applied.ObservedGeneration != s.work.Generation {
			return fmt.Errorf("the conditions are %+v", m.Conditions)
		}
		if want.failed == "" && applied.Reason != apiwork.ReasonManifestApplied ||
			want.failed != "" && (applied.Reason != apiwork.ReasonManifestFailed || !strings.Contains(applied.Message, want.failed)) {
			return fmt.Errorf("the condition is %+v, want %q", applied, want.failed)
		}
		if (available.Status == metav1.ConditionTrue) != (err == nil) {
			return fmt.Errorf("the condition is %+v, but the object: %v", available, err)
		}
		if err != nil {
			return nil
		}
		// What the agent would still do, it has done when it has seen this version.
		if v := m.StatusFeedbacks.Values; len(v) != 1 || *v[0].Value.String != cm.ResourceVersion {
			return fmt.Errorf("the agent has seen %v, and the object's version is %s", v, cm.ResourceVersion)
		}
		return nil
	})
}

func (s *stage) version() string {
	s.t.Helper()
	cm := &corev1.ConfigMap{}
	s.must(client.IgnoreNotFound(s.client.Get(context.Background(), types.NamespacedName{Namespace: s.target, Name: "a"}, cm)))
	return cm.ResourceVersion
}

func TestEachStrategyInEachSituation(t *testing.T) {
	for name, x := range strategies() {
		readOnly := x.strategy.Type == workv1.UpdateStrategyTypeReadOnly
		begin := func(t *testing.T) *stage {
			s := newStage(t, x.strategy)
			if readOnly {
				s.others()
			}
			s.put()
			if readOnly {
				s.ends(x.taken)
			} else {
				s.ends(x.created)
			}
			return s
		}
		t.Run(name+"/created", func(t *testing.T) {
			s := newStage(t, x.strategy)
			s.put()
			s.ends(x.created)
		})
		t.Run(name+"/unchanged", func(t *testing.T) {
			s := begin(t)
			before := s.version()
			s.stop()
			s.start(work.Options{})
			s.update(s.work, func(spec *workv1.ManifestWorkSpec) { spec.Executor = nil; spec.DeleteOption = &workv1.DeleteOption{} })
			s.ends(x.unchanged)
			if after := s.version(); after != before {
				t.Errorf("the object was written: %s, then %s", before, after)
			}
		})
		t.Run(name+"/drifted", func(t *testing.T) {
			s := begin(t)
			s.others()
			s.ends(x.drifted)
		})
		t.Run(name+"/changed", func(t *testing.T) {
			s := begin(t)
			s.update(s.work, func(spec *workv1.ManifestWorkSpec) { spec.Workload.Manifests[0] = s.text("two") })
			s.ends(x.changed)
		})
		t.Run(name+"/taken", func(t *testing.T) {
			s := newStage(t, x.strategy)
			s.others()
			s.put()
			s.ends(x.taken)
		})
		t.Run(name+"/deleted", func(t *testing.T) {
			s := begin(t)
			s.must(s.client.Delete(context.Background(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.target, Name: "a"}}))
			s.ends(x.deleted)
		})
		t.Run(name+"/lost race", func(t *testing.T) {
			s := newStage(t, x.strategy)
			var once sync.Once
			s.link.failWith(func(r *http.Request) error { // just before the object is made
				if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/configmaps") || r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/configmaps/a") {
					once.Do(func() { s.must(s.tryOthers()) })
				}
				return nil
			})
			s.put()
			s.ends(x.lostRace)
		})
		t.Run(name+"/other writes", func(t *testing.T) {
			s := begin(t)
			var once sync.Once
			s.link.failWith(func(r *http.Request) error { // just before the object is written
				if r.Method != http.MethodGet && strings.HasSuffix(r.URL.Path, "/configmaps/a") {
					once.Do(func() {
						s.must(s.client.Patch(context.Background(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.target, Name: "a"}},
							client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"theirs":"yes"}}}`))))
					})
				}
				return nil
			})
			s.others()
			s.ends(x.otherWrites)
		})
		t.Run(name+"/dropped", func(t *testing.T) {
			s := begin(t)
			s.update(s.work, func(spec *workv1.ManifestWorkSpec) { spec.Workload.Manifests[0] = s.configMap("b", "one") })
			if x.dropped.data == gone {
				s.value("a", "")
				return
			}
			s.wait(s.work, apiwork.ConditionApplied, metav1.ConditionTrue)
			s.value("a", "theirs")
		})
		t.Run(name+"/work deleted", func(t *testing.T) {
			s := begin(t)
			s.must(s.client.Delete(context.Background(), s.work))
			s.gone(s.work)
			if readOnly {
				s.value("a", "theirs")
			} else {
				s.value("a", "")
			}
		})
	}
}

// What becomes of the objects of a deleted work, by its option.
func TestEachDeleteOption(t *testing.T) {
	rules := func(r ...workv1.OrphaningRule) *workv1.SelectivelyOrphan {
		return &workv1.SelectivelyOrphan{OrphaningRules: r}
	}
	for name, x := range map[string]struct {
		option func(target string) *workv1.DeleteOption
		a, b   bool // whether they stay
	}{
		"none":       {func(string) *workv1.DeleteOption { return nil }, false, false},
		"empty":      {func(string) *workv1.DeleteOption { return &workv1.DeleteOption{} }, false, false},
		"Foreground": {func(string) *workv1.DeleteOption { return &workv1.DeleteOption{PropagationPolicy: "Foreground"} }, false, false},
		"Orphan":     {func(string) *workv1.DeleteOption { return &workv1.DeleteOption{PropagationPolicy: "Orphan"} }, true, true},
		"SelectivelyOrphan": {func(target string) *workv1.DeleteOption {
			return &workv1.DeleteOption{PropagationPolicy: "SelectivelyOrphan", SelectivelyOrphan: rules(workv1.OrphaningRule{Resource: "configmaps", Namespace: target, Name: "a"})}
		}, true, false},
		"SelectivelyOrphan without a match": {func(target string) *workv1.DeleteOption {
			return &workv1.DeleteOption{PropagationPolicy: "SelectivelyOrphan", SelectivelyOrphan: rules(
				workv1.OrphaningRule{Group: "apps", Resource: "configmaps", Namespace: target, Name: "a"},
				workv1.OrphaningRule{Resource: "secrets", Namespace: target, Name: "a"},
				workv1.OrphaningRule{Resource: "configmaps", Namespace: "other", Name: "a"},
				workv1.OrphaningRule{Resource: "configmaps", Namespace: target, Name: "*"})}
		}, false, false},
		"SelectivelyOrphan without rules": {func(string) *workv1.DeleteOption { return &workv1.DeleteOption{PropagationPolicy: "SelectivelyOrphan"} }, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			mw := f.create("w", func(s *workv1.ManifestWorkSpec) { s.DeleteOption = x.option(f.target) }, f.configMap("a", "one"), f.configMap("b", "one"))
			f.wait(mw, apiwork.ConditionAvailable, metav1.ConditionTrue)
			f.must(f.client.Delete(context.Background(), mw))
			f.gone(mw)
			for name, stays := range map[string]bool{"a": x.a, "b": x.b} {
				if !stays {
					f.value(name, "")
				} else if cm := f.value(name, "one"); len(cm.OwnerReferences) != 0 {
					t.Errorf("%s stays with the owners %v", name, cm.OwnerReferences)
				}
			}
		})
	}
}

// What was owned is let go when the option changes, and the other way round.
func TestDeleteOptionChanges(t *testing.T) {
	f := newFixture(t)
	mw := f.create("w", nil, f.configMap("a", "one"))
	f.wait(mw, apiwork.ConditionApplied, metav1.ConditionTrue)
	for _, x := range []struct {
		policy workv1.DeletePropagationPolicyType
		owners int
	}{{"Orphan", 0}, {"Foreground", 1}, {"Orphan", 0}} {
		f.update(mw, func(s *workv1.ManifestWorkSpec) { s.DeleteOption = &workv1.DeleteOption{PropagationPolicy: x.policy} })
		f.wait(mw, apiwork.ConditionApplied, metav1.ConditionTrue)
		if cm := f.value("a", "one"); len(cm.OwnerReferences) != x.owners {
			t.Errorf("%s: the owners are %v", x.policy, cm.OwnerReferences)
		}
	}
	f.must(f.client.Delete(context.Background(), mw))
	f.gone(mw)
	f.value("a", "one")
}
