package work_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testenv"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work"
	apiwork "github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

func TestWorkIsAppliedAndReported(t *testing.T) {
	f := newFixture(t)
	mw := f.create("w", nil, f.configMap("a", "one"), f.manifest(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: TARGET}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: web}]}
`))
	f.wait(mw, apiwork.ConditionApplied, metav1.ConditionTrue)
	f.wait(mw, apiwork.ConditionAvailable, metav1.ConditionTrue)
	cm := f.value("a", "one")

	amw := &workv1.AppliedManifestWork{}
	f.must(f.client.Get(context.Background(), types.NamespacedName{Name: apiwork.AppliedManifestWorkName(apiwork.HubHash(f.hubHost), "w")}, amw))
	if refs := cm.OwnerReferences; len(refs) != 1 || refs[0].UID != amw.UID || refs[0].Controller != nil {
		t.Errorf("the owners are %+v, want the AppliedManifestWork, not as controller", refs)
	}
	if len(amw.Status.AppliedResources) != 2 || amw.Spec.AgentID != f.hub {
		t.Errorf("the AppliedManifestWork has the resources %+v of agent %q", amw.Status.AppliedResources, amw.Spec.AgentID)
	}
	if got := mw.Status.ResourceStatus.Manifests; len(got) != 2 || got[1].ResourceMeta.Resource != "deployments" || got[1].ResourceMeta.Ordinal != 1 {
		t.Errorf("the manifests' statuses are %+v", got)
	}

	// At rest nothing is written.
	version := mw.ResourceVersion
	f.update(mw, func(*workv1.ManifestWorkSpec) {}) // a no-op of the server
	f.wait(mw, apiwork.ConditionAvailable, metav1.ConditionTrue)
	if mw.ResourceVersion != version {
		t.Errorf("the work was written again: %s, then %s", version, mw.ResourceVersion)
	}
}

func TestDriftIsMended(t *testing.T) {
	for name, s := range map[string]workv1.UpdateStrategy{
		"update":            {Type: workv1.UpdateStrategyTypeUpdate},
		"server-side apply": {Type: workv1.UpdateStrategyTypeServerSideApply, ServerSideApply: &workv1.ServerSideApplyConfig{Force: true}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			mw := f.create("w", strategy(s), f.configMap("a", "one"))
			f.wait(mw, apiwork.ConditionApplied, metav1.ConditionTrue)
			cm := f.value("a", "one")
			cm.Data["key"] = "edited"
			f.must(f.client.Update(context.Background(), cm))
			f.value("a", "one")
			f.must(f.client.Delete(context.Background(), cm))
			f.value("a", "one")
		})
	}
}

func TestWorkIsAppliedOnceMoreWhenAsked(t *testing.T) {
	applies := &atomic.Int32{}
	f := newFixtureBehind(t, func(next http.RoundTripper) http.RoundTripper {
		return testkit.RoundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/configmaps/a") {
				applies.Add(1)
			}
			return next.RoundTrip(r)
		})
	})
	mw := f.create("w", strategy(workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeServerSideApply}), f.configMap("a", "one"))
	f.wait(mw, apiwork.ConditionApplied, metav1.ConditionTrue)
	for i := range 2 {
		before := applies.Load()
		f.replay(mw, fmt.Sprint(i))
		if applies.Load() == before {
			t.Errorf("the object was not applied after request %d", i)
		}
	}
}

func TestReplayLiftsTheCompletionOfNoWork(t *testing.T) {
	f := newFixture(t)
	mw := f.create("w", func(s *workv1.ManifestWorkSpec) {
		s.ManifestConfigs = []workv1.ManifestConfigOption{{
			ResourceIdentifier: workv1.ResourceIdentifier{Resource: "configmaps", Namespace: f.target, Name: "a"},
			ConditionRules:     []workv1.ConditionRule{{Condition: apiwork.ConditionComplete, Type: workv1.ConditionRuleTypeCEL, CELExpressions: []string{"object.data.key != ''"}}},
		}}
	}, f.configMap("a", "one"))
	f.wait(mw, apiwork.ConditionComplete, metav1.ConditionTrue)
	cm := f.value("a", "one")
	cm.Data["key"] = "edited"
	f.must(f.client.Update(context.Background(), cm))
	f.replay(mw, "x")
	f.value("a", "edited")
}

// replay asks for a work to be applied once more, and waits for the answer.
func (f *fixture) replay(mw *workv1.ManifestWork, request string) {
	f.t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, apiwork.ReplayAnnotation, request)
	f.must(f.client.Patch(context.Background(), mw, client.RawPatch(types.MergePatchType, patch)))
	testenv.Eventually(f.t, func() error {
		f.must(f.client.Get(context.Background(), client.ObjectKeyFromObject(mw), mw))
		if mw.Annotations[apiwork.ReplayAnnotation] != "" {
			return fmt.Errorf("the request is not answered")
		}
		return nil
	})
}

func TestCreateOnlyAndReadOnlyLeaveTheObjectAlone(t *testing.T) {
	f := newFixture(t)
	mw := f.create("create", strategy(workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeCreateOnly}), f.configMap("a", "one"))
	f.wait(mw, apiwork.ConditionApplied, metav1.ConditionTrue)
	cm := f.value("a", "one")
	cm.Data["key"] = "edited"
	f.must(f.client.Update(context.Background(), cm))
	f.update(mw, func(s *workv1.ManifestWorkSpec) { s.Workload.Manifests[0] = f.configMap("a", "two") })
	f.wait(mw, apiwork.ConditionApplied, metav1.ConditionTrue)
	f.value("a", "edited")

	read := f.create("read", strategy(workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeReadOnly}), f.configMap("b", "one"))
	f.wait(read, apiwork.ConditionApplied, metav1.ConditionTrue)
	f.wait(read, apiwork.ConditionAvailable, metav1.ConditionFalse)
	f.value("b", "")
	f.must(f.client.Create(context.Background(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.target, Name: "b"}}))
	f.wait(read, apiwork.ConditionAvailable, metav1.ConditionTrue)
	f.must(f.client.Delete(context.Background(), read))
	f.gone(read)
	f.must(f.client.Get(context.Background(), types.NamespacedName{Namespace: f.target, Name: "b"}, cm)) // was never ours
}

func TestConflictOfServerSideApplyIsReported(t *testing.T) {
	f := newFixture(t)
	other := f.configMap("a", "theirs")
	f.must(f.client.Patch(context.Background(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.target, Name: "a"}},
		client.RawPatch(types.ApplyPatchType, other.Raw), client.FieldOwner("somebody")))
	mw := f.create("w", strategy(workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeServerSideApply}), f.configMap("a", "ours"))
	f.wait(mw, apiwork.ConditionApplied, metav1.ConditionFalse)
	c := meta.FindStatusCondition(mw.Status.ResourceStatus.Manifests[0].Conditions, apiwork.ConditionApplied)
	if c.Reason != "AppliedManifestFailed" || !strings.Contains(c.Message, `"somebody"`) {
		t.Errorf("the manifest's condition is %+v, want one that names the other manager", c)
	}
	f.value("a", "theirs")
}

// What the agent has written by one strategy is its own under the next: it does not
// conflict with itself, and a field that leaves the manifest goes.
func TestAStrategyThatBecomesServerSideApply(t *testing.T) {
	f := newFixture(t)
	mw := f.create("w", nil, f.manifest(`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: TARGET}, data: {key: one, other: x}}`))
	f.wait(mw, apiwork.ConditionApplied, metav1.ConditionTrue)
	applied := workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeServerSideApply}
	f.update(mw, func(s *workv1.ManifestWorkSpec) {
		strategy(applied)(s)
		s.Workload.Manifests = []workv1.Manifest{f.configMap("a", "two")}
	})
	f.wait(mw, apiwork.ConditionApplied, metav1.ConditionTrue)
	cm := f.value("a", "two")
	if _, stays := cm.Data["other"]; stays {
		t.Errorf("a holds %v, want the field that left the manifest to be gone", cm.Data)
	}
	if len(cm.OwnerReferences) != 1 {
		t.Errorf("the owners are %v", cm.OwnerReferences)
	}
	// Somebody else's field is still a conflict.
	cm.Data["key"] = "edited"
	f.must(f.client.Update(context.Background(), cm, client.FieldOwner("somebody")))
	f.update(mw, func(s *workv1.ManifestWorkSpec) { s.Workload.Manifests[0] = f.configMap("a", "three") })
	f.wait(mw, apiwork.ConditionApplied, metav1.ConditionFalse)
	f.value("a", "edited")
}

func TestWhatAWorkNoLongerHoldsIsDeleted(t *testing.T) {
	f := newFixture(t)
	mw := f.create("w", nil, f.configMap("a", "one"), f.configMap("b", "one"))
	f.wait(mw, apiwork.ConditionApplied, metav1.ConditionTrue)
	f.update(mw, func(s *workv1.ManifestWorkSpec) {
		s.Workload.Manifests = []workv1.Manifest{f.manifest(`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: TARGET}, data: {other: x}}`)}
	})
	f.value("b", "")
	cm := f.value("a", "")
	if len(cm.Data) != 1 || cm.Data["other"] != "x" {
		t.Errorf("a holds %v, want the field that left the manifest to be gone", cm.Data)
	}
}

func TestDeletedWorkTakesItsObjectsAlongOrNot(t *testing.T) {
	f := newFixture(t)
	for name, policy := range map[string]workv1.DeletePropagationPolicyType{
		"foreground": workv1.DeletePropagationPolicyTypeForeground,
		"orphan":     workv1.DeletePropagationPolicyTypeOrphan,
	} {
		mw := f.create(name, func(s *workv1.ManifestWorkSpec) {
			s.DeleteOption = &workv1.DeleteOption{PropagationPolicy: policy}
		}, f.configMap(name, "one"))
		f.wait(mw, apiwork.ConditionApplied, metav1.ConditionTrue)
		f.must(f.client.Delete(context.Background(), mw))
		f.gone(mw)
	}
	f.value("foreground", "")
	if cm := f.value("orphan", "one"); len(cm.OwnerReferences) != 0 {
		t.Errorf("the orphan has the owners %v", cm.OwnerReferences)
	}
}

// A deletion that nothing holds up is one write of the agent: it lets the work go.
func TestAQuickDeletionIsNotReported(t *testing.T) {
	f := newFixture(t)
	mw := f.create("w", nil, f.configMap("a", "one"), f.configMap("b", "two"))
	f.wait(mw, apiwork.ConditionApplied, metav1.ConditionTrue)
	next := f.versions()
	f.must(f.client.Delete(context.Background(), mw))
	var events []string
	for e := range next {
		if c := meta.FindStatusCondition(e.work.Status.Conditions, apiwork.ConditionDeleting); c != nil {
			t.Errorf("it reports %+v", c)
		}
		if events = append(events, string(e.Type)); e.Type == watch.Deleted {
			break
		}
	}
	if got := strings.Join(events, " "); got != "MODIFIED DELETED" { // as asked, and when it is gone
		t.Errorf("the hub has seen %s", got)
	}
}

// Works that controllers of the hub make have the finalizer from the start. All that the
// agent writes for them is the status.
func TestAWorkThatHasTheFinalizerIsWrittenOnce(t *testing.T) {
	f := newFixture(t)
	next := f.versions()
	mw := f.createHeld("w", f.configMap("a", "one"))
	f.wait(mw, apiwork.ConditionApplied, metav1.ConditionTrue)
	var events []string
	for e := range next {
		events = append(events, string(e.Type))
		if meta.IsStatusConditionTrue(e.work.Status.Conditions, apiwork.ConditionApplied) {
			break
		}
	}
	if got := strings.Join(events, " "); got != "ADDED MODIFIED" {
		t.Errorf("the hub has seen %s", got)
	}
	f.must(f.client.Delete(context.Background(), mw))
	f.gone(mw)
	f.value("a", "")
}

// It goes, too, when it was deleted before the agent has seen it, so that there is nothing
// in the cluster.
func TestAWorkThatHasTheFinalizerGoesUnseen(t *testing.T) {
	f := newFixture(t)
	f.stop()
	mw := f.createHeld("w", f.configMap("a", "one"))
	f.must(f.client.Delete(context.Background(), mw))
	f.start(work.Options{})
	f.gone(mw)
	f.value("a", "")
}

func TestWorkWaitsUntilItsObjectsAreGone(t *testing.T) {
	f := newFixture(t)
	mw := f.create("w", nil, f.manifest(`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: TARGET, finalizers: [example.org/hold]}, data: {key: one}}`))
	f.wait(mw, apiwork.ConditionApplied, metav1.ConditionTrue)
	f.must(f.client.Delete(context.Background(), mw))
	f.wait(mw, apiwork.ConditionDeleting, metav1.ConditionTrue)
	cm := f.value("a", "one")
	if cm.DeletionTimestamp.IsZero() {
		testenv.Eventually(t, func() error {
			if cm = f.value("a", "one"); cm.DeletionTimestamp.IsZero() {
				return fmt.Errorf("the object is not being deleted")
			}
			return nil
		})
	}
	cm.Finalizers = nil
	f.must(f.client.Update(context.Background(), cm))
	f.gone(mw)
}

func TestObjectOfTwoWorksGoesWithTheLast(t *testing.T) {
	f := newFixture(t)
	a, b := f.create("a", nil, f.configMap("shared", "one")), f.create("b", nil, f.configMap("shared", "one"))
	f.wait(a, apiwork.ConditionApplied, metav1.ConditionTrue)
	f.wait(b, apiwork.ConditionApplied, metav1.ConditionTrue)
	f.must(f.client.Delete(context.Background(), a))
	f.gone(a)
	if cm := f.value("shared", "one"); len(cm.OwnerReferences) != 1 {
		t.Errorf("the owners are %v, want the remaining work's", cm.OwnerReferences)
	}
	f.must(f.client.Delete(context.Background(), b))
	f.gone(b)
	f.value("shared", "")
}

func TestObjectThatWasMadeAgainByOthersStays(t *testing.T) {
	f := newFixture(t)
	mw := f.create("w", strategy(workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeCreateOnly}), f.configMap("a", "one"))
	f.wait(mw, apiwork.ConditionApplied, metav1.ConditionTrue)
	f.stop() // nobody sees what happens
	cm := f.value("a", "one")
	f.must(f.client.Delete(context.Background(), cm))
	f.must(f.client.Create(context.Background(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.target, Name: "a"}, Data: map[string]string{"key": "theirs"}}))
	f.must(f.client.Delete(context.Background(), mw))
	f.start(work.Options{})
	f.gone(mw)
	f.value("a", "theirs")
}

func TestDefinitionAndItsInstanceInOneWork(t *testing.T) {
	f := newFixture(t)
	group := f.target + ".example.org"
	mw := f.create("w", nil, f.manifest(`{apiVersion: `+group+`/v1, kind: Widget, metadata: {name: a, namespace: TARGET}}`), f.manifest(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.`+group+`}
spec:
  group: `+group+`
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`))
	f.wait(mw, apiwork.ConditionApplied, metav1.ConditionTrue)
}

func TestManifestsThatCannotBeAppliedDoNotHoldUpOthers(t *testing.T) {
	f := newFixture(t)
	mw := f.create("w", nil,
		f.manifest(`{apiVersion: example.org/v1, kind: Nothing, metadata: {name: a, namespace: TARGET}}`),
		f.manifest(`{apiVersion: v1, kind: ConfigMap, metadata: {name: no-namespace}}`),
		f.configMap("a", "one"))
	f.wait(mw, apiwork.ConditionApplied, metav1.ConditionFalse)
	f.value("a", "one")
	for i, want := range []string{`the server doesn't have a resource type "Nothing"`, "metadata.namespace is missing", ""} {
		c := meta.FindStatusCondition(mw.Status.ResourceStatus.Manifests[i].Conditions, apiwork.ConditionApplied)
		if !strings.Contains(c.Message, want) || (want == "") != (c.Status == metav1.ConditionTrue) {
			t.Errorf("manifest %d: the condition is %+v, want %q", i, c, want)
		}
	}
}

func TestExecutorWithoutRightsIsDenied(t *testing.T) {
	f := newFixture(t)
	mw := f.create("w", func(s *workv1.ManifestWorkSpec) {
		s.Executor = f.executor("nobody")
	}, f.configMap("a", "one"))
	f.wait(mw, apiwork.ConditionApplied, metav1.ConditionFalse)
	c := meta.FindStatusCondition(mw.Status.ResourceStatus.Manifests[0].Conditions, apiwork.ConditionApplied)
	if !strings.Contains(c.Message, "not allowed to apply the resource") {
		t.Errorf("the condition is %+v, want a denial", c)
	}
	f.value("a", "")
}

func TestStatusOfObjectsComesBack(t *testing.T) {
	f := newFixture(t)
	mw := f.create("w", func(s *workv1.ManifestWorkSpec) {
		s.ManifestConfigs = []workv1.ManifestConfigOption{{
			ResourceIdentifier: workv1.ResourceIdentifier{Group: "apps", Resource: "deployments", Namespace: f.target, Name: "web"},
			FeedbackRules:      []workv1.FeedbackRule{{Type: workv1.FeedbackTypeWellKnownStatus}},
		}}
	}, f.manifest(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: TARGET}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: web}]}
`))
	f.wait(mw, apiwork.ConditionAvailable, metav1.ConditionTrue)
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: f.target, Name: "web"}}
	f.must(f.client.Status().Patch(context.Background(), deployment, client.RawPatch(types.MergePatchType, []byte(`{"status":{"replicas":3,"readyReplicas":2}}`))))
	testenv.Eventually(t, func() error {
		f.must(f.client.Get(context.Background(), client.ObjectKeyFromObject(mw), mw))
		for _, v := range mw.Status.ResourceStatus.Manifests[0].StatusFeedbacks.Values {
			if v.Name == "ReadyReplicas" && v.Value.Integer != nil && *v.Value.Integer == 2 {
				return nil
			}
		}
		return fmt.Errorf("the feedback is %+v, want 2 ready replicas", mw.Status.ResourceStatus.Manifests[0].StatusFeedbacks)
	})
}

func TestAgentCarriesOnAfterARestart(t *testing.T) {
	f := newFixture(t)
	mw := f.create("w", nil, f.configMap("a", "one"))
	f.wait(mw, apiwork.ConditionApplied, metav1.ConditionTrue)
	before := f.value("a", "one")
	f.stop()
	edited := before.DeepCopy()
	edited.Data["key"] = "edited"
	f.must(f.client.Update(context.Background(), edited))
	f.start(work.Options{})
	if after := f.value("a", "one"); after.UID != before.UID {
		t.Error("the object was re-created")
	}
}

func TestObjectsOfALostWorkGoAfterTheGracePeriod(t *testing.T) {
	f := newFixture(t)
	mw := f.create("w", nil, f.configMap("a", "one"))
	f.wait(mw, apiwork.ConditionApplied, metav1.ConditionTrue)
	f.stop()
	// The hub lost it: nobody could finish with it.
	f.must(f.client.Patch(context.Background(), mw, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
	f.must(f.client.Delete(context.Background(), mw))
	clock := clocktesting.NewFakeClock(time.Now())
	f.start(work.Options{Clock: clock, EvictionGracePeriod: time.Hour})
	amw := &workv1.AppliedManifestWork{ObjectMeta: metav1.ObjectMeta{Name: apiwork.AppliedManifestWorkName(apiwork.HubHash(f.hubHost), "w")}}
	testenv.Eventually(t, func() error {
		f.must(f.client.Get(context.Background(), client.ObjectKeyFromObject(amw), amw))
		if amw.Status.EvictionStartTime == nil {
			return fmt.Errorf("the eviction has not begun")
		}
		return nil
	})
	f.value("a", "one")
	f.stop()
	clock.Step(time.Hour)
	f.start(work.Options{Clock: clock, EvictionGracePeriod: time.Hour})
	f.value("a", "")
	f.gone(amw)
}
