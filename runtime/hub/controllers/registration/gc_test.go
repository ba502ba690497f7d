package registration_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/registration/gc"
)

const cleanup = "cluster.open-cluster-management.io/resource-cleanup"

// cleaner is the controller, for resources as they are given to the hub.
func cleaner(t testing.TB, c client.Client, resources ...string) *gc.Controller {
	t.Helper()
	list, err := gc.ParseResources(resources)
	if err != nil {
		t.Fatal(err)
	}
	return cleanerOf(t, c, env.Client(), list)
}

func cleanerOf(t testing.TB, c client.Client, live client.Reader, resources []schema.GroupVersionResource) *gc.Controller {
	t.Helper()
	objects, err := metadata.NewForConfig(env.Config("muster-test"))
	if err != nil {
		t.Fatal(err)
	}
	return gc.NewController(c, live, objects, events.NewFakeRecorder(99), gc.Options{Resources: resources})
}

// leaving is a world whose cluster is being deleted, and is kept by the
// controller's finalizer and by another one.
func leaving(t testing.TB) *world {
	t.Helper()
	w := newWorld(t, func(mc *clusterv1.ManagedCluster) { mc.Finalizers = []string{cleanup, holding} })
	w.Must(w.Delete(context.Background(), w.cluster()))
	return w
}

func (w *world) addOn(name string, finalizers ...string) *addonv1alpha1.ManagedClusterAddOn {
	w.Helper()
	a := &addonv1alpha1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: name, Finalizers: finalizers}}
	w.Make(a)
	return a
}

func (w *world) work(name string, finalizers ...string) *workv1.ManifestWork {
	w.Helper()
	m := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: name, Finalizers: finalizers}}
	m.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":"m"}}`)}}}
	w.Make(m)
	return m
}

// state is "kept", "deleting" or "gone".
func (w *world) state(o client.Object) string {
	w.Helper()
	err := w.Get(context.Background(), client.ObjectKeyFromObject(o), o)
	switch {
	case apierrors.IsNotFound(err):
		return "gone"
	case err != nil:
		w.Fatal(err)
	case o.GetDeletionTimestamp() != nil:
		return "deleting"
	}
	return "kept"
}

func TestEveryClusterIsKeptForItsResources(t *testing.T) {
	w := newWorld(t, nil) // never accepted
	c, writes := env.Counting(t)
	for range 2 {
		w.reconcile(cleaner(t, c, "v1/configmaps"))
	}
	if got := w.cluster().Finalizers; !slices.Equal(got, []string{cleanup}) || writes.Count() != 1 {
		t.Errorf("the finalizers are %q after %d writes", got, writes.Count())
	}
}

func TestAnEmptyClusterSaysSoAndGoes(t *testing.T) {
	w := leaving(t)
	c, writes := env.Counting(t)
	for range 2 {
		w.reconcile(cleanerOf(t, c, c, gc.DefaultResources()))
	}
	w.mustSay("Deleting", metav1.ConditionTrue, "NoResource", "No cleaned resource in cluster ns.")
	if got := w.cluster().Finalizers; !slices.Equal(got, []string{holding}) || writes.Count() != 2 {
		t.Errorf("the finalizers are %q after %d writes", got, writes.Count())
	}
}

func TestWhatIsLeftIsCountedInTheCondition(t *testing.T) {
	w := leaving(t)
	w.addOn("a", holding)
	w.addOn("b")
	m := w.work("m")
	c, writes := env.Counting(t)
	controller := cleanerOf(t, c, c, gc.DefaultResources())
	w.reconcile(controller)
	w.mustSay("Deleting", metav1.ConditionFalse, "ResourceRemaining", "The resource managedclusteraddons is remaning, the remaining count is 2, the finalizer pending count is 0")
	if r := w.reconcile(controller); r.RequeueAfter != 0 {
		t.Errorf("what is watched is looked at again after %s", r.RequeueAfter)
	}
	w.mustSay("Deleting", metav1.ConditionFalse, "ResourceRemaining", "The resource managedclusteraddons is remaning, the remaining count is 1, the finalizer pending count is 1")
	if n := writes.During(func() { w.reconcile(controller) }); n != 0 {
		t.Errorf("%d writes although nothing has changed", n)
	}
	if got := w.state(m); got != "kept" {
		t.Errorf("the work is %s before its turn", got)
	}
}

func TestWhatTheHubDoesNotWatchIsLookedAtAgain(t *testing.T) {
	w := leaving(t)
	w.Make(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "m", Finalizers: []string{holding}}})
	if r := w.reconcile(cleaner(t, w.Client, "v1/configmaps")); r.RequeueAfter != 5*time.Second {
		t.Errorf("looked at again after %s, want 5s", r.RequeueAfter)
	}
}

// The list may come from another hub, with versions that this one does not have.
func TestWhatTheHubWatchesIsDeletedInWhateverVersionItIsNamed(t *testing.T) {
	w := leaving(t)
	a, m := w.addOn("a"), w.work("m")
	controller := cleaner(t, w.Client, "addon.open-cluster-management.io/v9/managedclusteraddons", "work.open-cluster-management.io/v9/manifestworks")
	for range 3 {
		w.reconcile(controller)
	}
	if one, other := w.state(a), w.state(m); one != "gone" || other != "gone" {
		t.Errorf("the add-on is %s, the work is %s", one, other)
	}
	w.mustSay("Deleting", metav1.ConditionTrue, "NoResource", "No cleaned resource in cluster ns.")
}

func TestAHubThatDoesNotCleanLetsClustersGoAsTheyAre(t *testing.T) {
	w, alive := leaving(t), newWorld(t, nil)
	m := w.work("m")
	for _, x := range []*world{w, alive} {
		x.reconcile(cleaner(t, w.Client))
	}
	if got := w.cluster().Finalizers; !slices.Equal(got, []string{holding}) {
		t.Errorf("the finalizers are %q", got)
	}
	// Nobody has looked, so nobody says that nothing is left.
	if c := meta.FindStatusCondition(w.cluster().Status.Conditions, "Deleting"); c != nil {
		t.Errorf("the condition is %+v", c)
	}
	if got := w.state(m); got != "kept" {
		t.Errorf("the work is %s", got)
	}
	if got := alive.cluster().Finalizers; len(got) != 0 {
		t.Errorf("a cluster that stays gets the finalizers %q", got)
	}
}

// lagging is a cache that has yet to hear of any cluster.
type lagging struct{ client.Client }

func (c lagging) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if _, ok := o.(*clusterv1.ManagedCluster); ok {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "managedclusters"}, key.Name)
	}
	return c.Client.Get(ctx, key, o, opts...)
}

func TestAClusterThatCameBackKeepsItsWorks(t *testing.T) {
	w := newWorld(t, nil)
	m := w.work("m")
	w.reconcile(cleanerOf(t, lagging{w.Client}, w.Client, gc.DefaultResources()))
	if got := w.state(m); got != "kept" {
		t.Errorf("the work is %s", got)
	}
}

func TestOnlyTheNamespacesOfClustersAreCleaned(t *testing.T) {
	for name, x := range map[string]struct {
		label string
		want  string
	}{
		"of a cluster that is gone": {`"%s"`, "gone"},
		"of nobody":                 {`null`, "kept"},
		"of another cluster":        {`"another"`, "kept"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.Remove(w.cluster())
			label := x.label
			if strings.Contains(label, "%s") {
				label = fmt.Sprintf(label, w.name)
			}
			w.Merge(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.name}}, `{"metadata":{"labels":{"open-cluster-management.io/cluster-name":%s}}}`, label)
			m := w.work("m")
			w.reconcile(cleanerOf(t, w.Client, w.Client, gc.DefaultResources()))
			if got := w.state(m); got != x.want {
				t.Errorf("the work is %s, want %s", got, x.want)
			}
		})
	}
}

func TestTheNamespaceOfAClusterThatWasNeverAcceptedIsLeftAlone(t *testing.T) {
	for name, x := range map[string]struct {
		label    string
		accepted bool
		want     string
	}{
		"somebody else's":                {`null`, false, "kept"},
		"another cluster's":              {`"another"`, false, "kept"},
		"an earlier cluster's":           {`"%s"`, false, "gone"},
		"of an accepted cluster, always": {`null`, true, "gone"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(mc *clusterv1.ManagedCluster) {
				mc.Finalizers = []string{cleanup, holding}
				if x.accepted {
					mc.Finalizers = append(mc.Finalizers, "cluster.open-cluster-management.io/api-resource-cleanup")
				}
			})
			label := strings.ReplaceAll(x.label, "%s", w.name)
			w.Merge(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.name}}, `{"metadata":{"labels":{"open-cluster-management.io/cluster-name":%s}}}`, label)
			m := w.work("m")
			w.Must(w.Delete(context.Background(), w.cluster()))
			w.reconcile(cleanerOf(t, w.Client, w.Client, gc.DefaultResources()))
			if got := w.state(m); got != x.want {
				t.Errorf("the work is %s, want %s", got, x.want)
			}
			if left := slices.Contains(w.cluster().Finalizers, cleanup); left && x.want == "kept" {
				t.Error("the cluster is held though there is nothing to clean")
			}
		})
	}
}

func TestAHubThatStartsCleansBehindClustersThatAreGone(t *testing.T) {
	w, alive := newWorld(t, nil), newWorld(t, nil)
	a, m, kept := w.addOn("a"), w.work("m"), alive.work("kept")
	w.Remove(w.cluster())
	run(t, func(m manager.Manager) error {
		return cleanerOf(t, m.GetClient(), m.GetAPIReader(), gc.DefaultResources()).Register(m)
	})
	testkit.Eventually(t, func() error {
		if one, other := w.state(a), w.state(m); one != "gone" || other != "gone" {
			return fmt.Errorf("the add-on is %s, the work is %s", one, other)
		}
		return nil
	})
	if got := alive.state(kept); got != "kept" {
		t.Errorf("the work of another cluster is %s", got)
	}
}

func TestTheOutcomeIsLoggedByUpstreamsNames(t *testing.T) {
	for name, x := range map[string]struct {
		resource, event string
	}{
		"emptied": {"v1/configmaps", "ResourceCleanupCompleted"},
		// Access reviews can be created and not listed, by nobody.
		"not emptied": {"authorization.k8s.io/v1/localsubjectaccessreviews", "ResourceCleanupFail"},
	} {
		t.Run(name, func(t *testing.T) {
			w := leaving(t)
			var lines []string
			var mu sync.Mutex
			ctx := log.IntoContext(context.Background(), funcr.New(func(_, args string) {
				mu.Lock()
				defer mu.Unlock()
				lines = append(lines, args)
			}, funcr.Options{}))
			_, err := cleaner(t, w.Client, x.resource).Reconcile(ctx, reconcile.Request{NamespacedName: types.NamespacedName{Name: w.name}})
			if failed := x.event == "ResourceCleanupFail"; failed != (err != nil) {
				t.Errorf("the error is %v", err)
			}
			if !slices.ContainsFunc(lines, func(l string) bool {
				return strings.Contains(l, fmt.Sprintf(`"event"=%q`, x.event)) && strings.Contains(l, w.name)
			}) {
				t.Errorf("no line with %s in %q", x.event, lines)
			}
		})
	}
}
