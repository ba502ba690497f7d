package work_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	batchclient "k8s.io/client-go/kubernetes/typed/batch/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testenv"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work"
	apiwork "github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/features"
)

// What agents tell of the objects: conditions by rules, feedback, and what they
// wait for.

// configFor is an option for all objects of a resource.
func configFor(group, resource string, change func(*workv1.ManifestConfigOption)) func(*workv1.ManifestWorkSpec) {
	return func(s *workv1.ManifestWorkSpec) {
		o := workv1.ManifestConfigOption{ResourceIdentifier: workv1.ResourceIdentifier{Group: group, Resource: resource, Namespace: "*", Name: "*"}}
		change(&o)
		s.ManifestConfigs = append(s.ManifestConfigs, o)
	}
}

func rule(condition string, expressions ...string) func(*workv1.ManifestConfigOption) {
	return func(o *workv1.ManifestConfigOption) {
		o.ConditionRules = append(o.ConditionRules, workv1.ConditionRule{Condition: condition, Type: workv1.ConditionRuleTypeCEL, CELExpressions: expressions})
	}
}

// condition waits for a condition of a work as it is reported with a reason, at
// its present generation, and returns its message.
func (f *fixture) condition(mw *workv1.ManifestWork, kind string, status metav1.ConditionStatus, reason string) string {
	f.t.Helper()
	message := ""
	testenv.Eventually(f.t, func() error {
		f.must(f.client.Get(context.Background(), client.ObjectKeyFromObject(mw), mw))
		c := meta.FindStatusCondition(mw.Status.Conditions, kind)
		if c == nil || c.Status != status || c.Reason != reason || c.ObservedGeneration != mw.Generation {
			return fmt.Errorf("the condition %s is %+v, want %s %s of generation %d", kind, c, status, reason, mw.Generation)
		}
		message = c.Message
		return nil
	})
	return message
}

// without waits until a work has no condition of a type.
func (f *fixture) without(mw *workv1.ManifestWork, kind string) {
	f.t.Helper()
	testenv.Eventually(f.t, func() error {
		f.must(f.client.Get(context.Background(), client.ObjectKeyFromObject(mw), mw))
		if c := meta.FindStatusCondition(mw.Status.Conditions, kind); c != nil {
			return fmt.Errorf("there is %+v", c)
		}
		return nil
	})
}

func (f *fixture) edit(name, key, value string) {
	f.t.Helper()
	testenv.Eventually(f.t, func() error {
		cm := &corev1.ConfigMap{}
		if err := f.client.Get(context.Background(), types.NamespacedName{Namespace: f.target, Name: name}, cm); err != nil {
			return err
		}
		if cm.Data == nil {
			cm.Data = map[string]string{}
		}
		cm.Data[key] = value
		return f.client.Update(context.Background(), cm)
	})
}

func TestConditionsFollowTheObjects(t *testing.T) {
	f := newFixture(t)
	mw := f.create("w", configFor("", "configmaps", func(o *workv1.ManifestConfigOption) {
		rule("Ready", `"phase" in object.data && object.data.phase == "done"`)(o)
		rule("Progressing", `!("phase" in object.data)`)(o)
		o.UpdateStrategy = &workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeCreateOnly}
	}), f.configMap("a", "one"), f.configMap("b", "one"))
	f.condition(mw, "Ready", metav1.ConditionFalse, apiwork.ReasonRulesAggregated)
	f.condition(mw, apiwork.ConditionProgressing, metav1.ConditionTrue, apiwork.ReasonRulesAggregated)
	f.edit("a", "phase", "done")
	f.edit("b", "phase", "done")
	if got, want := f.condition(mw, "Ready", metav1.ConditionTrue, apiwork.ReasonRulesAggregated), "Aggregated from 2 manifest conditions"; got != want {
		t.Errorf("the message is %q, want %q", got, want)
	}
	f.condition(mw, apiwork.ConditionProgressing, metav1.ConditionFalse, apiwork.ReasonRulesAggregated)
	for _, m := range mw.Status.ResourceStatus.Manifests {
		c := meta.FindStatusCondition(m.Conditions, "Ready")
		if c == nil || c.Reason != apiwork.ReasonRuleEvaluated || c.ObservedGeneration != mw.Generation || c.Message != "Manifest is Ready" {
			t.Errorf("the condition of %s is %+v", m.ResourceMeta.Name, c)
		}
	}
	// With its rule, a condition goes.
	f.update(mw, func(s *workv1.ManifestWorkSpec) {
		s.ManifestConfigs[0].ConditionRules = s.ManifestConfigs[0].ConditionRules[:1]
	})
	f.without(mw, apiwork.ConditionProgressing)
	f.condition(mw, "Ready", metav1.ConditionTrue, apiwork.ReasonRulesAggregated)
	if c := meta.FindStatusCondition(mw.Status.ResourceStatus.Manifests[0].Conditions, apiwork.ConditionProgressing); c != nil {
		t.Errorf("the manifest still has %+v", c)
	}
}

func TestCompleteWorkIsLeftAlone(t *testing.T) {
	f := newFixture(t)
	job := f.manifest(`{apiVersion: batch/v1, kind: Job, metadata: {name: once, namespace: TARGET}, spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: a}]}}}}`)
	mw := f.create("w", configFor("batch", "jobs", func(o *workv1.ManifestConfigOption) {
		o.ConditionRules = []workv1.ConditionRule{{Condition: apiwork.ConditionComplete, Type: workv1.ConditionRuleTypeWellKnownConditions}}
	}), job, f.configMap("a", "one"))
	if got, want := f.condition(mw, apiwork.ConditionComplete, metav1.ConditionFalse, apiwork.ReasonRulesAggregated), "Job is not finished"; got != want {
		t.Errorf("the message is %q, want %q", got, want)
	}
	batch, err := batchclient.NewForConfig(env.Config("test-jobs"))
	f.must(err)
	jobs := batch.Jobs(f.target)
	once, err := jobs.Get(context.Background(), "once", metav1.GetOptions{})
	f.must(err)
	now := metav1.Now()
	once.Status.StartTime, once.Status.CompletionTime = &now, &now
	for _, kind := range []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobComplete} {
		once.Status.Conditions = append(once.Status.Conditions, batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	_, err = jobs.UpdateStatus(context.Background(), once, metav1.UpdateOptions{})
	f.must(err)
	f.condition(mw, apiwork.ConditionComplete, metav1.ConditionTrue, apiwork.ReasonRulesAggregated)

	// Neither what is gone nor what is new is made any more.
	background := metav1.DeletePropagationBackground
	f.must(jobs.Delete(context.Background(), "once", metav1.DeleteOptions{PropagationPolicy: &background}))
	f.update(mw, func(s *workv1.ManifestWorkSpec) { s.Workload.Manifests[1] = f.configMap("a", "two") })
	f.condition(mw, apiwork.ConditionAvailable, metav1.ConditionFalse, apiwork.ReasonResourcesMissing)
	f.value("a", "one")
	applied := meta.FindStatusCondition(mw.Status.Conditions, apiwork.ConditionApplied)
	if applied == nil || applied.ObservedGeneration == mw.Generation {
		t.Errorf("the condition Applied is %+v, want that of the generation that was applied", applied)
	}

	// Until nothing says any more that the work is complete.
	f.update(mw, func(s *workv1.ManifestWorkSpec) { s.ManifestConfigs = nil })
	f.value("a", "two")
	f.without(mw, apiwork.ConditionComplete)
	_, err = jobs.Get(context.Background(), "once", metav1.GetOptions{})
	f.must(err)
}

// Of several manifests, one can be complete by itself.
func TestCompleteManifestIsLeftAlone(t *testing.T) {
	f := newFixture(t)
	mw := f.create("w", configFor("", "configmaps", rule(apiwork.ConditionComplete, `object.metadata.name == "a"`)), f.configMap("a", "one"), f.configMap("b", "one"))
	f.condition(mw, apiwork.ConditionComplete, metav1.ConditionFalse, apiwork.ReasonRulesAggregated)
	f.update(mw, func(s *workv1.ManifestWorkSpec) {
		s.Workload.Manifests = []workv1.Manifest{f.configMap("a", "two"), f.configMap("b", "two")}
	})
	f.value("b", "two")
	f.wait(mw, apiwork.ConditionApplied, metav1.ConditionTrue)
	f.value("a", "one")
}

func TestFeedbackOfAnyTypeBehindItsGate(t *testing.T) {
	paths := configFor("", "configmaps", func(o *workv1.ManifestConfigOption) {
		o.FeedbackRules = []workv1.FeedbackRule{{Type: workv1.FeedbackTypeJSONPaths, JSONPaths: []workv1.JSONPath{{Name: "data", Path: ".data"}, {Name: "name", Path: ".metadata.name"}}}}
	})
	f := newFixture(t)
	mw := f.create("w", paths, f.configMap("a", "one"))
	feedback := func(want, reason string) {
		t.Helper()
		testenv.Eventually(t, func() error {
			f.must(f.client.Get(context.Background(), client.ObjectKeyFromObject(mw), mw))
			if len(mw.Status.ResourceStatus.Manifests) == 0 {
				return fmt.Errorf("nothing is reported")
			}
			m := mw.Status.ResourceStatus.Manifests[0]
			got := ""
			for _, v := range m.StatusFeedbacks.Values {
				if v.Value.JSONRaw != nil {
					got += v.Name + "=" + *v.Value.JSONRaw + " "
				} else {
					got += v.Name + "=" + *v.Value.String + " "
				}
			}
			c := meta.FindStatusCondition(m.Conditions, apiwork.ConditionStatusFeedbackSynced)
			if strings.TrimSpace(got) != want || c == nil || c.Reason != reason || c.ObservedGeneration != 0 {
				return fmt.Errorf("the feedback is %q with %+v, want %q with the reason %s", got, c, want, reason)
			}
			return nil
		})
	}
	feedback("name=a", apiwork.ReasonFeedbackFailed)
	f.stop()
	gates := features.NewAgent()
	f.must(gates.Set("RawFeedbackJsonString=true"))
	f.start(work.Options{Features: gates, MaxJSONRawLength: 20})
	feedback(`data={"key":"one"} name=a`, apiwork.ReasonFeedbackSynced)
	f.update(mw, func(s *workv1.ManifestWorkSpec) { s.Workload.Manifests[0] = f.configMap("a", "rather-long") })
	feedback("name=a", apiwork.ReasonFeedbackFailed)
}

// A rollout over many clusters goes by Progressing and Degraded.
func TestWorksOfReplicaSetsShowHowTheyProgressWithoutRules(t *testing.T) {
	f := newFixture(t)
	deployment := f.manifest(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: TARGET}, spec: {replicas: 2, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: web}]}}}}`)
	plain := f.create("plain", nil, f.configMap("a", "one"))
	mw := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: f.hub, Name: "w", Labels: map[string]string{apiwork.ReplicaSetLabel: "default.web"}}}
	mw.Spec.Workload.Manifests = []workv1.Manifest{deployment, f.configMap("b", "one")}
	f.must(f.client.Create(context.Background(), mw))
	if got := f.condition(mw, apiwork.ConditionProgressing, metav1.ConditionTrue, apiwork.ReasonWorkloadsMoving); !strings.Contains(got, "Deployment "+f.target+"/web: its controller has not seen the spec yet") {
		t.Errorf("the message is %q", got)
	}
	f.condition(mw, apiwork.ConditionDegraded, metav1.ConditionFalse, apiwork.ReasonWorkloadsHealthy)
	status := func(s appsv1.DeploymentStatus) {
		testenv.Eventually(t, func() error {
			web := &appsv1.Deployment{}
			f.must(f.client.Get(context.Background(), types.NamespacedName{Namespace: f.target, Name: "web"}, web))
			s.ObservedGeneration = web.Generation
			web.Status = s
			return f.client.Status().Update(context.Background(), web)
		})
	}
	status(appsv1.DeploymentStatus{Replicas: 2, UpdatedReplicas: 2, ReadyReplicas: 2, AvailableReplicas: 2})
	f.condition(mw, apiwork.ConditionProgressing, metav1.ConditionFalse, apiwork.ReasonWorkloadsSettled)
	status(appsv1.DeploymentStatus{Replicas: 2, UpdatedReplicas: 1, Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded", Message: "too slow"}}})
	if got := f.condition(mw, apiwork.ConditionDegraded, metav1.ConditionTrue, apiwork.ReasonWorkloadsDegraded); got != "Deployment "+f.target+"/web: too slow" {
		t.Errorf("the message is %q", got)
	}
	f.condition(mw, apiwork.ConditionProgressing, metav1.ConditionTrue, apiwork.ReasonWorkloadsMoving)
	// Rules win.
	f.update(mw, func(s *workv1.ManifestWorkSpec) {
		configFor("apps", "deployments", rule(apiwork.ConditionProgressing, "false"))(s)
	})
	f.condition(mw, apiwork.ConditionProgressing, metav1.ConditionFalse, apiwork.ReasonRulesAggregated)
	f.condition(mw, apiwork.ConditionDegraded, metav1.ConditionTrue, apiwork.ReasonWorkloadsDegraded)
	// Off means as upstream's agent does.
	f.stop()
	gates := features.NewAgent()
	f.must(gates.Set("DerivedProgressing=false"))
	f.start(work.Options{Features: gates})
	f.without(mw, apiwork.ConditionDegraded)
	f.without(plain, apiwork.ConditionProgressing)
}

func TestWhatHoldsUpADeletionIsNamed(t *testing.T) {
	f := newFixture(t)
	held := f.manifest(`{apiVersion: v1, kind: ConfigMap, metadata: {name: held, namespace: TARGET, finalizers: [example.org/hold]}, data: {key: one}}`)
	mw := f.create("w", nil, held, f.configMap("free", "one"))
	f.wait(mw, apiwork.ConditionApplied, metav1.ConditionTrue)
	release := func() {
		testenv.Eventually(t, func() error {
			cm := f.value("held", "one")
			cm.Finalizers = nil
			return f.client.Update(context.Background(), cm)
		})
	}
	// What a work no longer holds.
	f.update(mw, func(s *workv1.ManifestWorkSpec) { s.Workload.Manifests = s.Workload.Manifests[1:] })
	got := f.condition(mw, apiwork.ConditionPruned, metav1.ConditionFalse, apiwork.ReasonResourcesHeld)
	if want := "Waiting for objects that the work no longer holds: configmaps " + f.target + "/held, held by the finalizer example.org/hold"; got != want {
		t.Errorf("the message is %q, want %q", got, want)
	}
	release()
	f.without(mw, apiwork.ConditionPruned)
	f.value("held", "")

	// What goes with the work, also when the agent is restarted meanwhile.
	f.update(mw, func(s *workv1.ManifestWorkSpec) { s.Workload.Manifests = append(s.Workload.Manifests, held) })
	f.value("held", "one")
	f.wait(mw, apiwork.ConditionApplied, metav1.ConditionTrue)
	f.must(f.client.Delete(context.Background(), mw))
	want := "ManifestWork is being deleted: waiting for configmaps " + f.target + "/held, held by the finalizer example.org/hold"
	reported := func() {
		t.Helper()
		testenv.Eventually(t, func() error {
			if got := f.condition(mw, apiwork.ConditionDeleting, metav1.ConditionTrue, apiwork.ReasonDeleting); got != want {
				return fmt.Errorf("the message is %q, want %q", got, want)
			}
			return nil
		})
	}
	reported()
	f.stop()
	f.start(work.Options{})
	reported()
	release()
	f.gone(mw)
}

func TestObjectIsMadeAsSoonAsItCanBe(t *testing.T) {
	f := newFixture(t)
	later := f.target + "-later"
	group := f.target + ".example.org"
	mw := f.create("w", nil,
		f.manifest(`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: TARGET-later}, data: {key: one}}`),
		f.manifest(`{apiVersion: `+group+`/v1, kind: Widget, metadata: {name: a, namespace: TARGET}}`))
	f.wait(mw, apiwork.ConditionApplied, metav1.ConditionFalse)
	// The event comes after some attempts, from which on the next one is far.
	f.event(mw, `Manifest 0, ConfigMap `+later+`/a: Failed to apply manifest: namespaces "`+later+`" not found`)
	f.event(mw, `Manifest 1, Widget `+f.target+`/a: Failed to apply manifest: the server doesn't have a resource type "Widget"`)
	f.must(f.client.Create(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: later}}))
	definition := f.create("definition", nil, f.manifest(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.`+group+`}
spec:
  group: `+group+`
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`))
	f.wait(definition, apiwork.ConditionApplied, metav1.ConditionTrue)
	f.wait(mw, apiwork.ConditionApplied, metav1.ConditionTrue)
	f.must(f.client.Delete(context.Background(), mw))
	f.gone(mw)
	f.must(f.client.Delete(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: later}}))
}

// event waits for a warning about a work.
func (f *fixture) event(mw *workv1.ManifestWork, message string) {
	f.t.Helper()
	testenv.Eventually(f.t, func() error {
		list := &corev1.EventList{}
		f.must(f.client.List(context.Background(), list, client.InNamespace(f.hub)))
		var have []string
		for _, e := range list.Items {
			if e.InvolvedObject.Name == mw.Name && e.InvolvedObject.Kind == "ManifestWork" && e.Type == corev1.EventTypeWarning {
				have = append(have, e.Reason+" "+e.Message)
				if e.Reason == apiwork.ReasonManifestFailed && e.Message == message {
					return nil
				}
			}
		}
		return fmt.Errorf("the events are %q, want %q", have, message)
	})
}
