package work_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/muster-fleet/terraform-provider-muster/internal/testenv"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work"
	apiwork "github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// One API server plays both sides: the works are in a namespace of it, and
// their objects in others.
var env testenv.Env

func TestMain(m *testing.M) { testenv.Main(m, &env, testenv.ManagedCluster()) }

const hubHost = "https://hub.example.org:6443"

// fixture is a cluster's hub namespace with an agent, and a namespace for what
// its works make.
type fixture struct {
	t           *testing.T
	client      client.Client
	hub, target string
	stop        func()
}

func newFixture(t *testing.T) *fixture {
	f := &fixture{t: t, client: env.Client(), hub: testenv.Namespace(t, env.Client()), target: testenv.Namespace(t, env.Client())}
	f.start(work.Options{})
	t.Cleanup(func() {
		// Works go first, while the agent is there to let them go.
		works := &workv1.ManifestWorkList{}
		f.must(f.client.List(context.Background(), works, client.InNamespace(f.hub)))
		for i := range works.Items {
			f.must(client.IgnoreNotFound(f.client.Delete(context.Background(), &works.Items[i])))
			f.gone(&works.Items[i])
		}
		f.stop()
	})
	return f
}

// start runs an agent until stop is called.
func (f *fixture) start(o work.Options) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	o.ClusterName, o.AgentID, o.HubHost = f.hub, f.hub, hubHost
	o.Hub, o.ManagedCluster = env.Config("test-hub"), env.Config("test-agent")
	go func() { done <- work.Run(ctx, o) }()
	f.stop = func() {
		cancel()
		if err := <-done; err != nil {
			f.t.Error(err)
		}
	}
}

func (f *fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// manifest reads a manifest; TARGET in it is the namespace for objects.
func (f *fixture) manifest(text string) workv1.Manifest {
	f.t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(strings.ReplaceAll(text, "TARGET", f.target)))
	f.must(err)
	return workv1.Manifest{RawExtension: runtime.RawExtension{Raw: raw}}
}

func (f *fixture) configMap(name, value string) workv1.Manifest {
	return f.manifest(fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: TARGET}, data: {key: %s}}`, name, value))
}

func (f *fixture) create(name string, change func(*workv1.ManifestWorkSpec), manifests ...workv1.Manifest) *workv1.ManifestWork {
	f.t.Helper()
	mw := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: f.hub, Name: name}}
	mw.Spec.Workload.Manifests = manifests
	if change != nil {
		change(&mw.Spec)
	}
	f.must(f.client.Create(context.Background(), mw))
	return mw
}

// update changes a work, however often its status changes meanwhile.
func (f *fixture) update(mw *workv1.ManifestWork, change func(*workv1.ManifestWorkSpec)) {
	f.t.Helper()
	testenv.Eventually(f.t, func() error {
		if err := f.client.Get(context.Background(), client.ObjectKeyFromObject(mw), mw); err != nil {
			return err
		}
		change(&mw.Spec)
		return f.client.Update(context.Background(), mw)
	})
}

// wait waits for a condition of a work at its present generation.
func (f *fixture) wait(mw *workv1.ManifestWork, kind string, status metav1.ConditionStatus) {
	f.t.Helper()
	testenv.Eventually(f.t, func() error {
		if err := f.client.Get(context.Background(), client.ObjectKeyFromObject(mw), mw); err != nil {
			return err
		}
		c := meta.FindStatusCondition(mw.Status.Conditions, kind)
		if c == nil || c.Status != status || c.ObservedGeneration != mw.Generation {
			return fmt.Errorf("the work's condition %s is %+v, want %s for generation %d; its manifests: %+v", kind, c, status, mw.Generation, mw.Status.ResourceStatus.Manifests)
		}
		return nil
	})
}

func (f *fixture) gone(o client.Object) {
	f.t.Helper()
	testenv.Eventually(f.t, func() error {
		err := f.client.Get(context.Background(), client.ObjectKeyFromObject(o), o)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("%T %s is still there (%v), with the finalizers %v", o, o.GetName(), err, o.GetFinalizers())
	})
}

// value waits until a config map has a value; "" waits until it is gone.
func (f *fixture) value(name, want string) *corev1.ConfigMap {
	f.t.Helper()
	cm := &corev1.ConfigMap{}
	testenv.Eventually(f.t, func() error {
		err := f.client.Get(context.Background(), types.NamespacedName{Namespace: f.target, Name: name}, cm)
		switch {
		case apierrors.IsNotFound(err) && want == "":
			return nil
		case err != nil:
			return err
		case cm.Data["key"] != want:
			return fmt.Errorf("the config map %s holds %q, want %q", name, cm.Data["key"], want)
		}
		return nil
	})
	return cm
}

func strategy(s workv1.UpdateStrategy) func(*workv1.ManifestWorkSpec) {
	return func(spec *workv1.ManifestWorkSpec) {
		spec.ManifestConfigs = []workv1.ManifestConfigOption{{
			ResourceIdentifier: workv1.ResourceIdentifier{Resource: "configmaps", Namespace: "*", Name: "*"}, UpdateStrategy: &s,
		}}
	}
}

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
	f.must(f.client.Get(context.Background(), types.NamespacedName{Name: apiwork.AppliedManifestWorkName(apiwork.HubHash(hubHost), "w")}, amw))
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

func TestObjectThatWasMadeAnewByOthersStays(t *testing.T) {
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
		s.Executor = &workv1.ManifestWorkExecutor{Subject: workv1.ManifestWorkExecutorSubject{
			Type: workv1.ExecutorSubjectTypeServiceAccount, ServiceAccount: &workv1.ManifestWorkSubjectServiceAccount{Namespace: f.target, Name: "nobody"},
		}}
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
		t.Error("the object was made anew")
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
	amw := &workv1.AppliedManifestWork{ObjectMeta: metav1.ObjectMeta{Name: apiwork.AppliedManifestWorkName(apiwork.HubHash(hubHost), "w")}}
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
