package work_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testenv"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work"
	apiwork "github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

func TestFieldThatLeftAManifestGoesAlsoAfterAFailedWrite(t *testing.T) {
	l := &link{}
	f := newFixtureBehind(t, l.wrap)
	mw := f.create("w", nil, f.manifest(`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: TARGET}, data: {key: one, other: x}}`))
	f.wait(mw, apiwork.ConditionApplied, metav1.ConditionTrue)
	var once sync.Once
	l.failWith(func(r *http.Request) (err error) {
		if r.Method == http.MethodPut {
			once.Do(func() { err = testkit.ErrBroken })
		}
		return err
	})
	f.update(mw, func(s *workv1.ManifestWorkSpec) { s.Workload.Manifests[0] = f.configMap("a", "one") })
	f.wait(mw, apiwork.ConditionApplied, metav1.ConditionTrue)
	if cm := f.value("a", "one"); len(cm.Data) != 1 {
		t.Errorf("the config map holds %v, want the field that left the manifest to be gone", cm.Data)
	}
}

// A library that panics about one object ends neither the agent nor the work of others.
func TestPanicAboutOneManifestIsItsErrorAlone(t *testing.T) {
	l := &link{}
	f := newFixtureBehind(t, l.wrap)
	l.failWith(func(r *http.Request) error {
		if strings.HasSuffix(r.URL.Path, "/configmaps") && r.Method == http.MethodPost && r.ContentLength > 1000 {
			panic("odd object")
		}
		return nil
	})
	mw := f.create("w", nil, f.configMap("plain", "one"), f.configMap("odd", strings.Repeat("x", 1000)))
	f.wait(mw, apiwork.ConditionApplied, metav1.ConditionFalse)
	f.value("plain", "one")
	odd := meta.FindStatusCondition(mw.Status.ResourceStatus.Manifests[1].Conditions, apiwork.ConditionApplied)
	if odd == nil || odd.Status != metav1.ConditionFalse || !strings.Contains(odd.Message, "panic: odd object") {
		t.Errorf("the odd object's condition is %+v", odd)
	}
	l.failWith(nil)
	f.wait(mw, apiwork.ConditionApplied, metav1.ConditionTrue)
}

func TestExecutorIsAskedWhenItChanges(t *testing.T) {
	f := newFixture(t)
	mw := f.create("w", nil, f.configMap("a", "one"))
	f.wait(mw, apiwork.ConditionApplied, metav1.ConditionTrue)
	f.update(mw, func(s *workv1.ManifestWorkSpec) { s.Executor = f.executor("nobody") })
	f.wait(mw, apiwork.ConditionApplied, metav1.ConditionFalse)
}

func TestWorksThatDisagreeDoNotFightWithoutEnd(t *testing.T) {
	l := &link{}
	f := newFixtureBehind(t, l.wrap)
	a, b := f.create("a", nil, f.configMap("shared", "one")), f.create("b", nil, f.configMap("shared", "two"))
	f.wait(a, apiwork.ConditionApplied, metav1.ConditionTrue)
	f.wait(b, apiwork.ConditionApplied, metav1.ConditionTrue)
	// Each work says which other one has the object, as far as it had to restore it.
	testenv.Eventually(t, func() error {
		said := map[string]string{}
		for mine, other := range map[*workv1.ManifestWork]string{a: b.Name, b: a.Name} {
			live := &workv1.ManifestWork{}
			f.must(f.client.Get(context.Background(), client.ObjectKeyFromObject(mine), live))
			for _, m := range live.Status.ResourceStatus.Manifests {
				c := meta.FindStatusCondition(m.Conditions, apiwork.ConditionContested)
				if c == nil {
					continue
				}
				if c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, "The work "+other+" holds it, too") {
					t.Fatalf("%s says %q", mine.Name, c.Message)
				}
				said[mine.Name] = c.Message
			}
		}
		if len(said) == 0 {
			return errors.New("no work says that its object is contested")
		}
		return nil
	})
	<-time.After(3 * time.Second) // the time in which the writes are counted
	if n := l.count("PUT", "/configmaps/shared"); n > 30 {
		t.Errorf("%d writes in three seconds", n)
	}
}

func TestAggregatedRulesAreLeftToTheCluster(t *testing.T) {
	l := &link{}
	f := newFixtureBehind(t, l.wrap)
	mw := f.create("w", nil,
		f.manifest(`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: TARGET-part, labels: {part-of: TARGET}}, rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]}`),
		f.manifest(`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: TARGET-all}, aggregationRule: {clusterRoleSelectors: [{matchLabels: {part-of: TARGET}}]}, rules: []}`))
	f.wait(mw, apiwork.ConditionApplied, metav1.ConditionTrue)
	role := &rbacv1.ClusterRole{}
	testenv.Eventually(t, func() error {
		f.must(f.client.Get(context.Background(), types.NamespacedName{Name: f.target + "-all"}, role))
		if len(role.Rules) != 1 {
			return fmt.Errorf("the rules are %v, want those of the part", role.Rules)
		}
		return nil
	})
	<-time.After(time.Second) // the time in which nobody should write
	if n := l.count("PUT", f.target+"-all"); n > 1 {
		t.Errorf("the agent wrote the role %d times", n)
	}
}

func TestObjectThatWasMadeJustBeforeAKillIsNotForgotten(t *testing.T) {
	l := &link{}
	f := newFixtureBehind(t, l.wrap)
	mw := f.create("w", nil, f.configMap("a", "one"))
	f.wait(mw, apiwork.ConditionApplied, metav1.ConditionTrue)
	// Once it has made b, the agent never gets to do anything again.
	dead := make(chan struct{})
	var once sync.Once
	l.mu.Lock()
	l.after = func(r *http.Request) {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/configmaps") {
			once.Do(func() { close(dead) })
		}
	}
	l.fail = func(*http.Request) error {
		select {
		case <-dead:
			return testkit.ErrBroken
		default:
			return nil
		}
	}
	l.mu.Unlock()
	f.update(mw, func(s *workv1.ManifestWorkSpec) {
		s.Workload.Manifests = []workv1.Manifest{f.configMap("a", "one"), f.configMap("b", "one")}
	})
	select {
	case <-dead:
	case <-time.After(testkit.Timeout):
		t.Fatal("b was not made")
	}
	f.stop()
	f.value("b", "one")
	// Before it is back, b is no longer wanted.
	f.update(mw, func(s *workv1.ManifestWorkSpec) { s.Workload.Manifests = s.Workload.Manifests[:1] })
	f.wrap = nil
	f.start(work.Options{})
	f.value("b", "")
	f.value("a", "one")
}

func TestDeletedWorkGoesAlsoWhenTheAgentIsAnother(t *testing.T) {
	f := newFixture(t)
	mw := f.create("w", nil, f.configMap("a", "one"))
	f.wait(mw, apiwork.ConditionApplied, metav1.ConditionTrue)
	f.stop()
	f.must(f.client.Delete(context.Background(), mw))
	f.agentID = f.hub + "-reinstalled"
	f.start(work.Options{})
	f.gone(mw)
	f.value("a", "")
}

func TestFieldsThatTheServerFillsInAndKeepsAreNoObstacle(t *testing.T) {
	for kind, text := range map[string]string{
		"Job":                   `{apiVersion: batch/v1, kind: Job, metadata: {name: a, namespace: TARGET}, spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: a}]}}}}`,
		"PersistentVolumeClaim": `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: a, namespace: TARGET}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`,
		"Service":               `{apiVersion: v1, kind: Service, metadata: {name: a, namespace: TARGET}, spec: {selector: {app: a}, ports: [{port: 80}]}}`,
		"Pod":                   `{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: TARGET}, spec: {containers: [{name: a, image: a}]}}`,
		"ServiceAccount":        `{apiVersion: v1, kind: ServiceAccount, metadata: {name: a, namespace: TARGET}}`,
	} {
		t.Run(kind, func(t *testing.T) {
			f := newFixture(t)
			mw := f.create("w", func(s *workv1.ManifestWorkSpec) {
				if kind == "PersistentVolumeClaim" { // whose finalizer nobody here removes
					s.DeleteOption = &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeOrphan}
				}
			}, f.manifest(text))
			f.wait(mw, apiwork.ConditionApplied, metav1.ConditionTrue)
			// An agent that does not know what it applied finds a new generation.
			f.stop()
			f.update(mw, func(s *workv1.ManifestWorkSpec) {
				s.Workload.Manifests = append(s.Workload.Manifests, f.configMap("b", "one"))
			})
			f.start(work.Options{})
			f.wait(mw, apiwork.ConditionApplied, metav1.ConditionTrue)
		})
	}
}

func TestChangeOfWhatCannotChangeIsReported(t *testing.T) {
	f := newFixture(t)
	job := `{apiVersion: batch/v1, kind: Job, metadata: {name: a, namespace: TARGET}, spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: %s}]}}}}`
	mw := f.create("w", nil, f.manifest(fmt.Sprintf(job, "one")))
	f.wait(mw, apiwork.ConditionApplied, metav1.ConditionTrue)
	f.update(mw, func(s *workv1.ManifestWorkSpec) { s.Workload.Manifests[0] = f.manifest(fmt.Sprintf(job, "two")) })
	f.wait(mw, apiwork.ConditionApplied, metav1.ConditionFalse)
	c := meta.FindStatusCondition(mw.Status.ResourceStatus.Manifests[0].Conditions, apiwork.ConditionApplied)
	if !strings.Contains(c.Message, "immutable") {
		t.Errorf("the condition is %+v, want the server's reason", c)
	}
}

func TestSecretOfAnotherTypeIsMadeAgain(t *testing.T) {
	f := newFixture(t)
	secret := `{apiVersion: v1, kind: Secret, metadata: {name: a, namespace: TARGET}, type: %s, stringData: {username: a, password: %s}}`
	mw := f.create("w", nil, f.manifest(fmt.Sprintf(secret, "Opaque", "one")))
	f.wait(mw, apiwork.ConditionApplied, metav1.ConditionTrue)
	f.update(mw, func(s *workv1.ManifestWorkSpec) {
		s.Workload.Manifests[0] = f.manifest(fmt.Sprintf(secret, "kubernetes.io/basic-auth", "two"))
	})
	f.wait(mw, apiwork.ConditionApplied, metav1.ConditionTrue)
	got := &corev1.Secret{}
	f.must(f.client.Get(context.Background(), types.NamespacedName{Namespace: f.target, Name: "a"}, got))
	if got.Type != corev1.SecretTypeBasicAuth || string(got.Data["password"]) != "two" || len(got.OwnerReferences) != 1 {
		t.Errorf("the secret is of type %s with %q and the owners %v", got.Type, got.Data, got.OwnerReferences)
	}
}

func TestKnownGroupWithoutTheKindOrVersionIsReported(t *testing.T) {
	f := newFixture(t)
	mw := f.create("w", nil,
		f.manifest(`{apiVersion: apps/v9, kind: Deployment, metadata: {name: a, namespace: TARGET}}`),
		f.manifest(`{apiVersion: apps/v1, kind: Deploymint, metadata: {name: a, namespace: TARGET}}`))
	f.wait(mw, apiwork.ConditionApplied, metav1.ConditionFalse)
	for _, m := range mw.Status.ResourceStatus.Manifests {
		c := meta.FindStatusCondition(m.Conditions, apiwork.ConditionApplied)
		if want := "Failed to apply manifest: the server doesn't have a resource type"; !strings.HasPrefix(c.Message, want) {
			t.Errorf("the condition is %+v, want %q", c, want)
		}
	}
}

func TestManyObjectsAreMadeFastAndThenLeftInPeace(t *testing.T) {
	l := &link{}
	f := newFixtureBehind(t, l.wrap)
	start := time.Now()
	var works []*workv1.ManifestWork
	for w := range 3 {
		var manifests []workv1.Manifest
		for i := range 100 {
			manifests = append(manifests, f.configMap(fmt.Sprintf("c-%d-%d", w, i), "one"))
		}
		works = append(works, f.create(fmt.Sprintf("w-%d", w), nil, manifests...))
	}
	for _, mw := range works {
		f.wait(mw, apiwork.ConditionAvailable, metav1.ConditionTrue)
	}
	t.Logf("300 objects in %s with %d requests", time.Since(start), l.count())
	if n := l.count("GET ", "/configmaps/"); n > 15 {
		t.Errorf("%d objects were read before they were made", n)
	}
	testkit.EventuallyThat(t, "the agent is at rest", func() error {
		before := l.count()
		<-time.After(3 * time.Second)
		if n := l.count() - before; n > 2 {
			return fmt.Errorf("%d requests in three seconds", n)
		}
		return nil
	})
}

func TestNewManifestTakesOverAnObjectThatIsThere(t *testing.T) {
	f := newFixture(t)
	f.must(f.client.Create(context.Background(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.target, Name: "a", Labels: map[string]string{"theirs": "yes"}},
		Data:       map[string]string{"key": "theirs", "more": "theirs"},
	}))
	mw := f.create("w", nil, f.configMap("a", "one"))
	f.wait(mw, apiwork.ConditionApplied, metav1.ConditionTrue)
	if cm := f.value("a", "one"); len(cm.Data) != 1 || cm.Labels["theirs"] != "yes" || len(cm.OwnerReferences) != 1 {
		t.Errorf("the object is %+v, want the manifest's data, and the labels of both", cm)
	}
}

func TestWorkWhoseNameIsTooLongIsReported(t *testing.T) {
	f := newFixture(t)
	mw := f.create(strings.Repeat("w", 200), nil, f.configMap("a", "one"))
	f.wait(mw, apiwork.ConditionApplied, metav1.ConditionFalse)
	c := meta.FindStatusCondition(mw.Status.Conditions, apiwork.ConditionApplied)
	if c.Reason != "AppliedManifestWorkFailed" || !strings.Contains(c.Message, "253") {
		t.Errorf("the condition is %+v, want one that tells the limit", c)
	}
}

func TestFieldsIgnoredOnceTheObjectIsPresentAreSetOnceAndKept(t *testing.T) {
	f := newFixture(t)
	s := workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeServerSideApply, ServerSideApply: &workv1.ServerSideApplyConfig{
		Force: true, IgnoreFields: []workv1.IgnoreField{{Condition: workv1.IgnoreFieldsConditionOnSpokePresent, JSONPointers: []string{"/data/key"}}},
	}}
	mw := f.create("w", strategy(s), f.configMap("a", "one"))
	f.wait(mw, apiwork.ConditionAvailable, metav1.ConditionTrue)
	cm := f.value("a", "one")
	// Whatever wakes the agent, it must not take the field away again.
	cm.Labels = map[string]string{"touched": "yes"}
	f.must(f.client.Update(context.Background(), cm))
	<-time.After(500 * time.Millisecond)
	f.value("a", "one")
	cm = f.value("a", "one")
	cm.Data["key"] = "edited"
	f.must(f.client.Update(context.Background(), cm))
	<-time.After(500 * time.Millisecond)
	f.value("a", "edited")
}

// bombing is a strategy that ignores fields by paths which compare long lists again
// and again.
func bombing() func(*workv1.ManifestWorkSpec) {
	path := "." + strings.Repeat("|(.,.)", 12) + "|select(.a==.b)|.metadata.x"
	return strategy(workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeServerSideApply, ServerSideApply: &workv1.ServerSideApplyConfig{
		IgnoreFields: []workv1.IgnoreField{{
			Condition: workv1.IgnoreFieldsConditionOnSpokePresent, JQPathExpressions: slices.Repeat([]string{path}, 99),
		}},
	}})
}

// Works whose paths cost too much fail with the reason, keep no other work from
// being carried out, and the agent from ending.
func TestCostlyPathsDelayNoOtherWork(t *testing.T) {
	f := newFixture(t)
	numbers := "[" + strings.Repeat("1,", 4_999) + "1]"
	bombs := make([]*workv1.ManifestWork, 12)
	for i := range bombs {
		bombs[i] = f.create(fmt.Sprint("bomb-", i), bombing(), f.manifest(fmt.Sprintf(
			`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bomb-%d", "namespace": "TARGET"}, "a": %s, "b": %s}`,
			i, numbers, numbers)))
	}
	for i := range 3 {
		f.wait(f.create(fmt.Sprint("beside-", i), nil, f.configMap(fmt.Sprint("beside-", i), "one")),
			apiwork.ConditionAvailable, metav1.ConditionTrue)
	}
	for _, mw := range bombs {
		testenv.Eventually(t, func() error {
			if err := f.client.Get(context.Background(), client.ObjectKeyFromObject(mw), mw); err != nil {
				return err
			}
			for _, m := range mw.Status.ResourceStatus.Manifests {
				c := meta.FindStatusCondition(m.Conditions, apiwork.ConditionApplied)
				if c.Reason == apiwork.ReasonIgnoreFieldError && strings.Contains(c.Message, "ConfigMap "+f.target+"/bomb") &&
					strings.Contains(c.Message, `select(.a==.b)|.metadata.x": with it, the paths look at more than the 300000 values`) {
					return nil
				}
			}
			return fmt.Errorf("%s is reported so: %+v", mw.Name, mw.Status)
		})
	}
}

func TestKindThatMayNotBeWatchedIsLookedAtAnyway(t *testing.T) {
	l := &link{}
	l.failWith(func(r *http.Request) error {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/api/v1/configmaps") {
			return testkit.ErrBroken
		}
		return nil
	})
	f := newFixtureBehind(t, l.wrap)
	mw := f.create("w", nil, f.configMap("a", "one"))
	f.wait(mw, apiwork.ConditionAvailable, metav1.ConditionTrue)
	cm := f.value("a", "one")
	cm.Data["key"] = "edited"
	f.must(f.client.Update(context.Background(), cm))
	// Any reconcile of the work repairs it; here a label triggers one.
	testenv.Eventually(t, func() error {
		f.must(f.client.Get(context.Background(), client.ObjectKeyFromObject(mw), mw))
		mw.Labels = map[string]string{"another": "pass"}
		return f.client.Update(context.Background(), mw)
	})
	f.value("a", "one")
}

func TestDeniedWorkIsCarriedOutOnceItsExecutorHasTheRights(t *testing.T) {
	f := newFixture(t)
	role := f.manifest(`{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: more, namespace: TARGET}, rules: [{apiGroups: [""], resources: [secrets], verbs: [get]}]}`)
	mw := f.create("w", func(s *workv1.ManifestWorkSpec) { s.Executor = f.executor("deployer") }, f.configMap("a", "one"), role)
	f.wait(mw, apiwork.ConditionApplied, metav1.ConditionFalse)
	f.allow("deployer", allRightsTo("configmaps"), rbacv1.PolicyRule{
		APIGroups: []string{rbacv1.GroupName}, Resources: []string{"roles"},
		Verbs: []string{"create", "update", "patch", "get", "delete"},
	})
	// The agent asks again a minute later, or when the work changes.
	f.stop()
	f.start(work.Options{})
	f.value("a", "one")
	// What the executor could not grant itself stays denied.
	testenv.Eventually(t, func() error {
		f.must(f.client.Get(context.Background(), client.ObjectKeyFromObject(mw), mw))
		c := meta.FindStatusCondition(mw.Status.ResourceStatus.Manifests[1].Conditions, apiwork.ConditionApplied)
		if c == nil || c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "escalation") {
			return fmt.Errorf("the role's condition is %+v, want a denial for escalation", c)
		}
		return nil
	})
}
