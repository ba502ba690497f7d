package work_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testenv"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/engine"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/preview"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	apiwork "github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// servePreviews has the hub say that it serves previews.
func (f *fixture) servePreviews() {
	f.t.Helper()
	info := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespacePublic, Name: hubinfo.Name},
		Data:       map[string]string{hubinfo.FeaturesKey: hubinfo.WorkPreview},
	}
	public := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespacePublic}}
	for _, o := range []client.Object{public, info} {
		if err := f.client.Create(context.Background(), o); err != nil && !apierrors.IsAlreadyExists(err) {
			f.t.Fatal(err)
		}
	}
}

// previews answers the previews of a fixture, through a way to the cluster that lets no
// write through which is not a dry run.
func (f *fixture) previews() (annotations func() string) {
	f.t.Helper()
	f.servePreviews()
	ctx, cancel := context.WithCancel(context.Background())
	f.changed = make(chan struct{}, 1)
	local := env.Config("test-preview")
	local.Wrap(func(next http.RoundTripper) http.RoundTripper { return onlyDryRuns{f.t, next} })
	var mu sync.Mutex
	said := ""
	done := make(chan error, 1)
	go func() {
		done <- preview.Run(ctx, preview.Options{
			Part: engine.Part{
				ClusterName: f.hub, Namespace: f.target, Hub: env.Config("test-hub"), ManagedCluster: local,
				Log: slog.Default(), Clock: clock.RealClock{},
			},
			HubHost: f.hubHost, Changed: f.changed, Asked: func() string { return fmt.Sprint(f.asked.Load()) },
			Annotate: func(key, value string) {
				mu.Lock()
				defer mu.Unlock()
				said += key + "=" + value + ";"
			},
		})
	}()
	f.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			f.t.Error(err)
		}
	})
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		return said
	}
}

// onlyDryRuns fails a test that writes something in the managed cluster.
type onlyDryRuns struct {
	t    *testing.T
	next http.RoundTripper
}

func (o onlyDryRuns) RoundTrip(r *http.Request) (*http.Response, error) {
	reads := r.Method == http.MethodGet || strings.Contains(r.URL.Path, "/subjectaccessreviews")
	dry := r.URL.Query().Get("dryRun") == "All"
	if r.Method == http.MethodDelete { // in its body, too
		dry = true
	}
	if !reads && !dry {
		o.t.Errorf("a preview writes: %s %s", r.Method, r.URL)
	}
	return o.next.RoundTrip(r)
}

// preview previews a work, and returns a line for each object.
func (f *fixture) preview(name string, spec *workv1.ManifestWorkSpec) (lines string) {
	f.t.Helper()
	p := &v1alpha1.WorkPreview{ObjectMeta: metav1.ObjectMeta{Namespace: f.hub, GenerateName: "test-"}}
	p.Spec = v1alpha1.WorkPreviewSpec{WorkName: name, Work: spec}
	f.must(f.client.Create(context.Background(), p))
	f.asked.Add(1) // as the hub says in the ManagedCluster
	f.changed <- struct{}{}
	testenv.Eventually(f.t, func() error {
		if err := f.client.Get(context.Background(), client.ObjectKeyFromObject(p), p); err != nil {
			return err
		}
		if c := meta.FindStatusCondition(p.Status.Conditions, muster.ConditionPreviewed); c == nil {
			return fmt.Errorf("the preview of %s has no answer", name)
		}
		return nil
	})
	c := meta.FindStatusCondition(p.Status.Conditions, muster.ConditionPreviewed)
	if c.Status != metav1.ConditionTrue {
		return c.Message
	}
	var b strings.Builder
	for _, o := range p.Status.Objects {
		fmt.Fprintf(&b, "%s %s: %s", o.ResourceMeta.Kind, o.ResourceMeta.Name, o.Outcome)
		for _, change := range o.Changes {
			fmt.Fprintf(&b, ", %s %s -> %s", change.Path, change.From, change.To)
		}
		if o.Message != "" {
			fmt.Fprintf(&b, " (%s)", o.Message)
		}
		b.WriteString("\n")
	}
	return strings.ReplaceAll(b.String(), f.target, "TARGET")
}

func specOf(manifests ...workv1.Manifest) *workv1.ManifestWorkSpec {
	return &workv1.ManifestWorkSpec{Workload: workv1.ManifestsTemplate{Manifests: manifests}}
}

func (f *fixture) wantPreview(name string, spec *workv1.ManifestWorkSpec, want string) {
	f.t.Helper()
	if got := strings.TrimSpace(f.preview(name, spec)); got != want {
		f.t.Errorf("the preview is\n%s\nwant\n%s", got, want)
	}
}

func TestPreviewOfANewWork(t *testing.T) {
	f := newFixture(t)
	annotations := f.previews()
	const deployment = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: TARGET},
	  spec: {selector: {matchLabels: {a: %s}}, template: {metadata: {labels: {a: b}},
	    spec: {containers: [{name: web, image: web}]}}}}`
	f.wantPreview("new", specOf(
		f.configMap("one", "a"),
		f.manifest(`{apiVersion: v1, kind: Namespace, metadata: {name: TARGET-later}}`),
		f.manifest(`{apiVersion: v1, kind: ConfigMap, metadata: {name: two, namespace: TARGET-later}}`),
		f.manifest(`{apiVersion: v1, kind: ConfigMap, metadata: {name: three, namespace: TARGET-never}}`),
		f.manifest(fmt.Sprintf(deployment, "b")),
		f.manifest(strings.Replace(fmt.Sprintf(deployment, "c"), "name: web, namespace", "name: wrong, namespace", 1)),
		f.manifest(`{apiVersion: example.org/v1, kind: Widget, metadata: {name: w, namespace: TARGET}}`),
		f.manifest(`{apiVersion: example.com/v1, kind: Gadget, metadata: {name: g, namespace: TARGET}}`),
		f.manifest(
			`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition,
			  metadata: {name: gadgets.example.com},
		  spec: {group: example.com, scope: Namespaced, names: {plural: gadgets, kind: Gadget},
		    versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}}`,
		),
	), strings.TrimSpace(`
ConfigMap one: Create
Namespace TARGET-later: Create
ConfigMap two: Create (not checked, as it needs the namespace TARGET-later, which comes with this work)
ConfigMap three: Refused (namespaces "TARGET-never" not found)
Deployment web: Create
Deployment wrong: Refused (Deployment.apps "wrong" is invalid: spec.template.metadata.labels: Invalid value: `+
		"`selector` does not match template `labels`"+`)
Widget w: Refused (the server doesn't have a resource type "Widget")
Gadget g: Create (not checked, as it needs the definition gadgets.example.com, which comes with this work)
CustomResourceDefinition gadgets.example.com: Create`))
	f.value("one", "") // nothing was made
	if got := annotations(); got != muster.WorkPreviewsAnnotation+"=true;" {
		t.Errorf("the agent says %q of itself", got)
	}
}

func TestPreviewOfAChange(t *testing.T) {
	f := newFixture(t)
	f.previews()
	secret := func(value string) workv1.Manifest {
		return f.manifest(
			`{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: TARGET}, stringData: {word: ` + value + `}}`,
		)
	}
	deployment := func(replicas int, label, password string) workv1.Manifest {
		return f.manifest(fmt.Sprintf(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: TARGET},
		  spec: {replicas: %d, selector: {matchLabels: {a: %s}}, template: {metadata: {labels: {a: %s}}, spec: {
		    containers: [{name: web, image: web, env: [{name: DB_PASSWORD, value: %s}]}]}}}}`,
			replicas, label, label, password))
	}
	mw := f.create("w", nil, f.configMap("same", "a"), f.configMap("changes", "a"), f.configMap("goes", "a"),
		f.configMap("goes-held", "a"), secret("old"), deployment(2, "b", "old"))
	other := f.create("other", nil, f.configMap("goes-held", "a"))
	f.wait(mw, apiwork.ConditionApplied, metav1.ConditionTrue)
	f.wait(other, apiwork.ConditionApplied, metav1.ConditionTrue)
	f.wantPreview("w", specOf(f.configMap("same", "a"), f.configMap("changes", "b"), secret("new"),
		deployment(3, "b", "new"), f.configMap("new", "a")), strings.TrimSpace(`
ConfigMap same: Unchanged
ConfigMap changes: Change, data.key "a" -> "b"
Secret s: Change, data.word "(masked)" -> "(masked)"
Deployment web: Change, spec.replicas 2 -> 3, `+
		`spec.template.spec.containers[web].env[DB_PASSWORD].value "(masked)" -> "(masked)"
ConfigMap new: Create
ConfigMap goes: Delete
ConfigMap goes-held: Release (it stays: other works hold it, or it was orphaned)`))
	f.wantPreview("w", specOf(deployment(2, "c", "old")), strings.TrimSpace(`
Deployment web: Refused (Deployment.apps "web" is invalid: spec.selector: Invalid value: field is immutable)
ConfigMap changes: Delete
ConfigMap goes: Delete
ConfigMap goes-held: Release (it stays: other works hold it, or it was orphaned)
ConfigMap same: Delete
Secret s: Delete`))
	f.wantPreview("w", nil, strings.TrimSpace(`
ConfigMap changes: Delete
ConfigMap goes: Delete
ConfigMap goes-held: Release (it stays: other works hold it, or it was orphaned)
ConfigMap same: Delete
Secret s: Delete
Deployment web: Delete`))
	f.value("changes", "a")
	f.value("goes", "a")
}

// A secret that can't be changed is deleted and made again, which no dry run can show as
// a whole.
func TestPreviewOfWhatIsReCreated(t *testing.T) {
	f := newFixture(t)
	f.previews()
	secret := func(kind string) workv1.Manifest {
		return f.manifest(
			`{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: TARGET}, type: example.org/` + kind + `}`,
		)
	}
	mw := f.create("w", nil, secret("a"))
	f.wait(mw, apiwork.ConditionApplied, metav1.ConditionTrue)
	f.wantPreview("w", specOf(secret("b")), `Secret s: Recreate, type "example.org/a" -> "example.org/b"`)
}

func TestPreviewOfServerSideApply(t *testing.T) {
	f := newFixture(t)
	f.previews()
	apply := strategy(workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeServerSideApply})
	applied := func(manifests ...workv1.Manifest) *workv1.ManifestWorkSpec {
		s := specOf(manifests...)
		apply(s)
		return s
	}
	mw := f.create("w", nil, f.configMap("mine", "a"))
	f.wait(mw, apiwork.ConditionApplied, metav1.ConditionTrue)
	theirs := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.target, Name: "theirs"},
		Data:       map[string]string{"key": "x"},
	}
	f.must(f.client.Create(context.Background(), theirs, client.FieldOwner("somebody")))
	f.wantPreview(
		"w",
		applied(f.configMap("mine", "b"), f.configMap("theirs", "b"), f.configMap("new", "b")),
		strings.TrimSpace(`
ConfigMap mine: Change, data.key "a" -> "b"
ConfigMap theirs: Conflict (Apply failed with 1 conflict: conflict with "somebody" using v1: .data.key)
ConfigMap new: Create`),
	)
}

// A preview says no more than the executor may see, and nothing of what it may not do.
func TestPreviewWithTheRightsOfTheExecutor(t *testing.T) {
	f := newFixture(t)
	f.previews()
	f.must(f.client.Create(context.Background(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.target, Name: "s"}, Data: map[string][]byte{"a": []byte("b")}}))
	f.allow(
		"configs",
		allRightsTo("configmaps"),
		rbacv1.PolicyRule{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"roles"},
			Verbs: []string{"create", "update", "patch", "get", "delete"}},
	)
	spec := specOf(f.configMap("one", "a"),
		f.manifest(`{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: TARGET}, stringData: {a: c}}`),
		f.manifest(`{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: r, namespace: TARGET},
		  rules: [{apiGroups: [""], resources: [secrets], verbs: [get]}]}`))
	spec.Executor = f.executor("configs")
	got := f.preview("w", spec)
	for _, want := range []string{"ConfigMap one: Create\n",
		"Secret s: Refused (not allowed to apply the resource  secrets, TARGET s)\n", "Role r: Refused",
		"permission escalation)"} {
		if !strings.Contains(got, want) {
			t.Errorf("the preview is\n%s\nwant %q in it", got, want)
		}
	}
}

// What the cluster's own policies say is in the preview, in their words.
func TestPreviewOfWhatAPolicyRefuses(t *testing.T) {
	f := newFixture(t)
	f.previews()
	ctx := context.Background()
	policies, err := client.New(env.Config("test"), client.Options{})
	f.must(err)
	fail := admissionv1.Fail
	name := metav1.ObjectMeta{Name: f.target}
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: name}
	policy.Spec.FailurePolicy = &fail
	policy.Spec.MatchConstraints = &admissionv1.MatchResources{
		NamespaceSelector: &metav1.LabelSelector{
			MatchLabels: map[string]string{"kubernetes.io/metadata.name": f.target},
		},
		ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
			Rule: admissionv1.Rule{
				APIGroups:   []string{""},
				APIVersions: []string{"v1"},
				Resources:   []string{"configmaps"},
			},
		}}},
	}
	policy.Spec.Validations = []admissionv1.Validation{
		{Expression: `object.data.key != "forbidden"`, Message: "this value is not for us"},
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: name}
	binding.Spec.PolicyName, binding.Spec.ValidationActions = f.target, []admissionv1.ValidationAction{admissionv1.Deny}
	for _, o := range []client.Object{policy, binding} {
		f.must(policies.Create(ctx, o))
		t.Cleanup(func() { f.must(policies.Delete(ctx, o)) })
	}
	testenv.Eventually(t, func() error {
		got := f.preview("w", specOf(f.configMap("one", "forbidden"), f.configMap("two", "a")))
		if !strings.Contains(got, "ConfigMap one: Refused") || !strings.Contains(got, "this value is not for us") ||
			!strings.Contains(got, "ConfigMap two: Create") {
			return fmt.Errorf("the preview is\n%s", got)
		}
		return nil
	})
}

// An old preview has nobody who waits for it, and an upstream hub has none at all.
func TestPreviewsThatNobodyWaitsFor(t *testing.T) {
	f := newFixture(t)
	f.servePreviews()
	p := &v1alpha1.WorkPreview{ObjectMeta: metav1.ObjectMeta{Namespace: f.hub, Name: "old"}}
	p.Spec = v1alpha1.WorkPreviewSpec{WorkName: "w", Work: specOf(f.configMap("one", "a"))}
	f.must(f.client.Create(context.Background(), p))
	said := make(chan string, 1)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	later := later{clock.RealClock{}}
	go func() {
		_ = preview.Run(ctx, preview.Options{
			Part: engine.Part{
				ClusterName: f.hub, Namespace: f.target, Hub: env.Config("test-hub"),
				ManagedCluster: env.Config("test-preview"),
				Log:            slog.Default(), Clock: later,
			},
			HubHost: f.hubHost, Annotate: func(_, value string) { said <- value },
			Asked: func() string { return "" },
		})
	}()
	if value := <-said; value != "true" {
		t.Fatalf("the agent says %q of itself", value)
	}
	newer := f.create("newer", nil, f.configMap("two", "a"))
	f.wait(newer, apiwork.ConditionApplied, metav1.ConditionTrue)
	f.must(f.client.Get(ctx, client.ObjectKeyFromObject(p), p))
	if len(p.Status.Conditions) > 0 {
		t.Errorf("an old preview got an answer: %+v", p.Status)
	}
}

// later is a clock by which all previews are old.
type later struct{ clock.RealClock }

func (l later) Now() time.Time                  { return l.RealClock.Now().Add(muster.PreviewLifetime + time.Second) }
func (l later) Since(t time.Time) time.Duration { return l.Now().Sub(t) }

// A hub that fails for a moment is asked again for the previews that wait.
func TestPreviewsOfAHubThatFails(t *testing.T) {
	f := newFixture(t)
	f.previews() // publishes that the hub has previews
	p := &v1alpha1.WorkPreview{ObjectMeta: metav1.ObjectMeta{Namespace: testenv.Namespace(t, f.client), Name: "waits"}}
	p.Spec = v1alpha1.WorkPreviewSpec{WorkName: "w", Work: specOf(f.configMap("one", "a"))}
	f.must(f.client.Create(context.Background(), p))
	hub := env.Config("test-hub")
	failures := &failingLists{left: 2}
	hub.Wrap(func(next http.RoundTripper) http.RoundTripper {
		failures.next = next
		return failures
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- preview.Run(ctx, preview.Options{
			Part: engine.Part{
				ClusterName: p.Namespace, Namespace: f.target, Hub: hub, ManagedCluster: env.Config("test-preview"),
				Log: slog.Default(), Clock: clock.RealClock{},
			},
			HubHost: f.hubHost, Annotate: func(string, string) {}, Asked: func() string { return "" },
		})
	}()
	testenv.Eventually(t, func() error {
		f.must(f.client.Get(ctx, client.ObjectKeyFromObject(p), p))
		if len(p.Status.Conditions) == 0 {
			return fmt.Errorf("there is no answer yet")
		}
		return nil
	})
	cancel()
	f.must(<-done)
}

// failingLists fails the first lists of previews.
type failingLists struct {
	next http.RoundTripper
	mu   sync.Mutex
	left int
}

func (l *failingLists) RoundTrip(r *http.Request) (*http.Response, error) {
	l.mu.Lock()
	fails := l.left > 0 && r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/workpreviews")
	if fails {
		l.left--
	}
	l.mu.Unlock()
	if fails {
		return nil, fmt.Errorf("the hub is away")
	}
	return l.next.RoundTrip(r)
}
