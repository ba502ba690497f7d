package work_test

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testenv"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/kinds"
	apiwork "github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// One API server plays both sides: the works are in a namespace of it, and
// their objects in others.
var env testenv.Env

func TestMain(m *testing.M) {
	testenv.Main(m, &env, testenv.ManagedCluster(), testenv.Gated(kinds.HubWithWorkPreview))
}

// fixture is a cluster's hub namespace with an agent, and a namespace for what
// its works make.
type fixture struct {
	t           *testing.T
	client      client.Client
	hub, target string
	// hubHost is another for each fixture, so that works of the same name don't meet.
	hubHost string
	agentID string
	// wrap stands between the agent and the managed cluster, wrapHub between it
	// and the hub.
	wrap, wrapHub func(http.RoundTripper) http.RoundTripper
	stop          func()
	// asked and changed tell the agent of previews.
	asked   atomic.Int64
	changed chan struct{}
}

func newFixture(t *testing.T) *fixture {
	return newFixtureBehind(t, nil)
}

// newFixtureBehind is a fixture whose agent reaches the managed cluster through
// wrap.
func newFixtureBehind(t *testing.T, wrap func(http.RoundTripper) http.RoundTripper) *fixture {
	f := &fixture{
		t: t, client: env.Client(), wrap: wrap,
		hub: testenv.Namespace(t, env.Client()), target: testenv.Namespace(t, env.Client()),
	}
	f.agentID, f.hubHost = f.hub, "https://"+f.hub+".example.org:6443"
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
	o.ClusterName, o.AgentID, o.HubHost = f.hub, f.agentID, f.hubHost
	o.Hub, o.ManagedCluster = env.Config("test-hub"), env.Config("test-agent")
	o.Log = slog.Default()
	if f.wrap != nil {
		o.ManagedCluster.Wrap(f.wrap)
	}
	if f.wrapHub != nil {
		o.Hub.Wrap(f.wrapHub)
	}
	go func() { done <- work.Run(ctx, o) }()
	f.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			f.t.Error(err)
		}
	})
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
	const text = `{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: TARGET}, data: {key: %s}}`
	return f.manifest(fmt.Sprintf(text, name, value))
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

// createHeld creates a work as controllers of the hub do: with the agent's finalizer.
func (f *fixture) createHeld(name string, manifests ...workv1.Manifest) *workv1.ManifestWork {
	f.t.Helper()
	mw := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{
		Namespace: f.hub, Name: name, Finalizers: []string{apiwork.ManifestWorkFinalizer},
	}}
	mw.Spec.Workload.Manifests = manifests
	f.must(f.client.Create(context.Background(), mw))
	return mw
}

// version is a work as it was at some time, and what has become of it then.
type version struct {
	watch.Event
	work *workv1.ManifestWork
}

// versions are those of the works on the hub from now on.
func (f *fixture) versions() iter.Seq[version] {
	f.t.Helper()
	hub, err := client.NewWithWatch(env.Config("test-watching"), client.Options{Scheme: f.client.Scheme()})
	f.must(err)
	works := &workv1.ManifestWorkList{}
	f.must(hub.List(f.t.Context(), works, client.InNamespace(f.hub)))
	seen, err := hub.Watch(f.t.Context(), &workv1.ManifestWorkList{}, client.InNamespace(f.hub),
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: works.ResourceVersion}})
	f.must(err)
	f.t.Cleanup(seen.Stop)
	return func(yield func(version) bool) {
		for e := range seen.ResultChan() {
			mw, ok := e.Object.(*workv1.ManifestWork)
			if !ok {
				f.t.Fatalf("got %+v", e)
			}
			if !yield(version{e, mw}) {
				return
			}
		}
	}
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
			return fmt.Errorf("the work's condition %s is %+v, want %s for generation %d; its manifests: %+v",
				kind, c, status, mw.Generation, mw.Status.ResourceStatus.Manifests)
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

// executor is a service account in the namespace for objects.
func (f *fixture) executor(account string) *workv1.ManifestWorkExecutor {
	return &workv1.ManifestWorkExecutor{Subject: workv1.ManifestWorkExecutorSubject{
		Type:           workv1.ExecutorSubjectTypeServiceAccount,
		ServiceAccount: &workv1.ManifestWorkSubjectServiceAccount{Namespace: f.target, Name: account},
	}}
}

// allow gives an executor rights in the namespace for objects.
func (f *fixture) allow(account string, rules ...rbacv1.PolicyRule) *rbacv1.RoleBinding {
	f.t.Helper()
	name := metav1.ObjectMeta{Namespace: f.target, Name: account}
	f.must(f.client.Create(context.Background(), &rbacv1.Role{ObjectMeta: name, Rules: rules}))
	binding := &rbacv1.RoleBinding{
		ObjectMeta: name,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: f.target, Name: account}},
	}
	f.must(f.client.Create(context.Background(), binding))
	return binding
}

func allRightsTo(resource string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, Verbs: []string{"*"}}
}

func strategy(s workv1.UpdateStrategy) func(*workv1.ManifestWorkSpec) {
	return func(spec *workv1.ManifestWorkSpec) {
		spec.ManifestConfigs = []workv1.ManifestConfigOption{{
			ResourceIdentifier: workv1.ResourceIdentifier{Resource: "configmaps", Namespace: "*", Name: "*"},
			UpdateStrategy:     &s,
		}}
	}
}
