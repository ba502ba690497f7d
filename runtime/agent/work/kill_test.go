package work_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testenv"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work"
	apiwork "github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// killed runs an agent that dies at a write, or until done, then between, and
// then an agent that lives. died is false when there were not that many writes.
func (f *fixture) killed(at int, answered bool, done func() bool, between func()) (died bool, what string) {
	f.t.Helper()
	f.stop()
	k := testkit.NewKiller(at, answered)
	f.wrap, f.wrapHub = k.Wrap, k.Wrap
	f.start(work.Options{})
	died = k.Await(f.t, done)
	f.stop()
	between()
	f.wrap, f.wrapHub = nil, nil
	f.start(work.Options{})
	return died, k.What()
}

// applied reports whether exactly these objects are owned and accounted for.
func (f *fixture) applied(mw *workv1.ManifestWork, want map[string]string) error {
	f.must(f.client.Get(context.Background(), client.ObjectKeyFromObject(mw), mw))
	list := &corev1.ConfigMapList{}
	f.must(f.client.List(context.Background(), list, client.InNamespace(f.target)))
	amw := &workv1.AppliedManifestWork{}
	key := types.NamespacedName{Name: apiwork.AppliedManifestWorkName(apiwork.HubHash(f.hubHost), mw.Name)}
	if err := f.client.Get(context.Background(), key, amw); err != nil {
		return err
	}
	listed := map[string]string{}
	for _, r := range amw.Status.AppliedResources {
		listed[r.Name] = r.UID
	}
	if len(listed) != len(want) || len(amw.Status.AppliedResources) != len(want) {
		return fmt.Errorf("accounted for: %v, want %v", listed, want)
	}
	have := 0
	for _, cm := range list.Items {
		if len(cm.OwnerReferences) == 0 {
			continue
		}
		have++
		if cm.Data["key"] != want[cm.Name] || len(cm.OwnerReferences) != 1 || cm.OwnerReferences[0].UID != amw.UID || listed[cm.Name] != string(cm.UID) {
			return fmt.Errorf("%s holds %v, has the owners %v, and is listed with %q", cm.Name, cm.Data, cm.OwnerReferences, listed[cm.Name])
		}
	}
	if have != len(want) {
		return fmt.Errorf("%d objects are owned, want %v", have, want)
	}
	return nil
}

func (f *fixture) isApplied(mw *workv1.ManifestWork) bool {
	return conditionHolds(f, mw, apiwork.ConditionApplied) && conditionHolds(f, mw, apiwork.ConditionAvailable)
}

func conditionHolds(f *fixture, mw *workv1.ManifestWork, kind string) bool {
	if err := f.client.Get(context.Background(), client.ObjectKeyFromObject(mw), mw); err != nil {
		return false
	}
	for _, c := range mw.Status.Conditions {
		if c.Type == kind {
			return c.Status == metav1.ConditionTrue && c.ObservedGeneration == mw.Generation
		}
	}
	return false
}

// Killed at any write of making, changing and removing, the next agent gets to
// the same end: nothing is left behind, and nothing that others made meanwhile
// is deleted.
func TestAgentCanBeKilledAtAnyStep(t *testing.T) {
	phases := map[string]func(t *testing.T, f *fixture, at int, answered bool) (died bool, what string){
		"making": func(t *testing.T, f *fixture, at int, answered bool) (bool, string) {
			mw := f.create("w", nil, f.configMap("a", "one"), f.configMap("b", "one"))
			died, what := f.killed(at, answered, func() bool { return f.isApplied(mw) }, func() {})
			eventually(t, what, func() error { return f.applied(mw, map[string]string{"a": "one", "b": "one"}) })
			return died, what
		},
		"changing": func(t *testing.T, f *fixture, at int, answered bool) (bool, string) {
			mw := f.create("w", nil, f.configMap("a", "one"), f.configMap("b", "one"))
			f.wait(mw, apiwork.ConditionAvailable, metav1.ConditionTrue)
			f.stop()
			f.update(mw, func(s *workv1.ManifestWorkSpec) {
				s.Workload.Manifests = []workv1.Manifest{f.configMap("a", "two"), f.configMap("c", "one")}
			})
			want := map[string]string{"a": "two", "c": "one"}
			died, what := f.killed(at, answered, func() bool { return f.isApplied(mw) && f.applied(mw, want) == nil }, func() {})
			eventually(t, what, func() error { return f.applied(mw, want) })
			return died, what
		},
		"making, then not wanted": func(t *testing.T, f *fixture, at int, answered bool) (bool, string) {
			mw := f.create("w", nil, f.configMap("a", "one"))
			f.wait(mw, apiwork.ConditionAvailable, metav1.ConditionTrue)
			f.stop()
			f.update(mw, func(s *workv1.ManifestWorkSpec) {
				s.Workload.Manifests = []workv1.Manifest{f.configMap("a", "one"), f.configMap("b", "one")}
			})
			died, what := f.killed(at, answered, func() bool { return f.isApplied(mw) }, func() {
				f.update(mw, func(s *workv1.ManifestWorkSpec) { s.Workload.Manifests = s.Workload.Manifests[:1] })
			})
			eventually(t, what, func() error { return f.applied(mw, map[string]string{"a": "one"}) })
			return died, what
		},
		"removing": func(t *testing.T, f *fixture, at int, answered bool) (bool, string) {
			mw := f.create("w", nil, f.configMap("a", "one"), f.configMap("b", "one"))
			f.wait(mw, apiwork.ConditionAvailable, metav1.ConditionTrue)
			f.stop()
			f.must(f.client.Delete(context.Background(), mw))
			isGone := func() bool {
				return apierrors.IsNotFound(f.client.Get(context.Background(), client.ObjectKeyFromObject(mw), &workv1.ManifestWork{}))
			}
			// Another client re-creates what is gone before the next agent starts.
			theirs := map[string]types.UID{}
			died, what := f.killed(at, answered, isGone, func() {
				for _, name := range []string{"a", "b"} {
					cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.target, Name: name}, Data: map[string]string{"key": "theirs"}}
					if err := f.client.Create(context.Background(), cm); err == nil {
						theirs[name] = cm.UID
					} else if !apierrors.IsAlreadyExists(err) {
						t.Fatal(err)
					}
				}
			})
			f.gone(mw)
			f.gone(&workv1.AppliedManifestWork{ObjectMeta: metav1.ObjectMeta{Name: apiwork.AppliedManifestWorkName(apiwork.HubHash(f.hubHost), "w")}})
			for _, name := range []string{"a", "b"} {
				uid, recreated := theirs[name]
				if !recreated {
					f.value(name, "")
				} else if cm := f.value(name, "theirs"); cm.UID != uid {
					t.Errorf("killed at %s: %s was deleted though somebody else had made it", what, name)
				}
			}
			return died, what
		},
	}
	for phase, run := range phases {
		for _, answered := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, the write carried out: %t", phase, answered), func(t *testing.T) {
				at := 0
				for died := true; died && !t.Failed(); {
					at++
					t.Run(fmt.Sprintf("write %d", at), func(t *testing.T) {
						died, _ = run(t, newFixture(t), at, answered)
					})
				}
				if at < 4 {
					t.Errorf("there were only %d writes", at-1)
				}
				t.Logf("killed at each of %d writes", at-1)
			})
		}
	}
}

func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	testenv.Eventually(t, func() error {
		if err := check(); err != nil {
			return fmt.Errorf("killed at %q: %w", what, err)
		}
		return nil
	})
}
