package addon_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/addons"
	addoncontrollers "github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/addon/deploy"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/addon/registration"
)

// requests counts what a controller asks for, by "VERB resource", and gets: a write that
// is refused, as another one was faster, changes nothing.
type requests struct {
	mu    sync.Mutex
	count map[string]int
	// underWay is held for reading by requests whose answer has not been counted.
	underWay sync.RWMutex
}

func (r *requests) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(q *http.Request) (*http.Response, error) {
		part := strings.Split(strings.Trim(q.URL.Path, "/"), "/")
		resource := part[len(part)-1]
		if len(part) > 5 {
			resource = part[5] // namespaced
		}
		r.underWay.RLock()
		defer r.underWay.RUnlock()
		answer, err := next.RoundTrip(q)
		if err == nil && answer.StatusCode < http.StatusBadRequest {
			r.mu.Lock()
			r.count[q.Method+" "+resource]++
			r.mu.Unlock()
		}
		return answer, err
	})
}

// take returns the counts since the last time. What is seen on the server is in them.
func (r *requests) take() map[string]int {
	r.underWay.Lock()
	defer r.underWay.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.count
	r.count = map[string]int{}
	return out
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// runDeploying runs all controllers of add-ons. It counts what is asked by the one that
// deploys.
func (f *fleet) runDeploying() *requests {
	f.Helper()
	r := &requests{count: map[string]int{}}
	f.runWith(func(m manager.Manager) []controllerOf {
		as, err := addons.NewManager(m.GetConfig(), client.Options{Scheme: m.GetScheme(), Mapper: m.GetRESTMapper()})
		f.Must(err)
		config := env.Config("muster-test-deploying")
		config.Wrap(r.wrap)
		writing, err := client.New(config, client.Options{Scheme: m.GetScheme(), Mapper: m.GetRESTMapper(), Cache: &client.CacheOptions{Reader: m.GetCache()}})
		f.Must(err)
		return []controllerOf{
			addoncontrollers.NewStages(writing,
				addoncontrollers.NewOwners(m.GetClient()),
				registration.NewController(m.GetClient(), m.GetCache(), m.GetAPIReader(), as, f.clock),
				deploy.NewController(writing, m.GetCache(), m.GetAPIReader(), m.GetEventRecorder("test"), f.clock,
					deploy.Options{Overrides: true}),
			),
			addoncontrollers.NewHealth(m.GetClient()),
		}
	})
	return r
}

// workOf waits until a cluster has a work of the add-on that is as it should be.
func (f *fleet) workOf(cluster, what string, check func(w *workv1.ManifestWork) bool) *workv1.ManifestWork {
	f.Helper()
	w := &workv1.ManifestWork{}
	f.Eventually(func() error {
		if err := f.Get(context.Background(), types.NamespacedName{Namespace: f.full(cluster), Name: "addon-" + f.name + "-deploy-0"}, w); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if !check(w) {
			return fmt.Errorf("%s: the work is %+v", what, w)
		}
		return nil
	})
	return w
}

// running has the agent of a cluster report that the add-on's Deployment has pods.
func (f *fleet) running(cluster string, ready int64) {
	f.Helper()
	w := f.workOf(cluster, "to report", func(*workv1.ManifestWork) bool { return true })
	f.done(w, true)
	one, namespace := int64(1), ""
	for _, m := range w.Spec.Workload.Manifests {
		if o := objectOf(f, m); o.GetKind() == "Deployment" {
			namespace = o.GetNamespace()
		}
	}
	manifests := []workv1.ManifestCondition{{Conditions: []metav1.Condition{},
		ResourceMeta: workv1.ManifestResourceMeta{Group: "apps", Version: "v1", Kind: "Deployment", Resource: "deployments", Namespace: namespace, Name: "agent"},
		StatusFeedbacks: workv1.StatusFeedbackResult{Values: []workv1.FeedbackValue{
			{Name: "Replicas", Value: workv1.FieldValue{Type: "Integer", Integer: &one}},
			{Name: "ReadyReplicas", Value: workv1.FieldValue{Type: "Integer", Integer: &ready}},
		}}}}
	f.ReportOn(w, func() { w.Status.ResourceStatus.Manifests = manifests })
}

func (f *fleet) report(cluster string, status metav1.ConditionStatus) {
	f.Helper()
	mc := &clusterv1.ManagedCluster{}
	f.Must(f.Get(context.Background(), types.NamespacedName{Name: f.full(cluster)}, mc))
	f.ReportOn(mc, func() {
		meta.SetStatusCondition(&mc.Status.Conditions, metav1.Condition{Type: silent, Status: status, Reason: "Test"})
	})
}

// Each change that matters is seen by itself, and the health follows.
func TestDeployingSeesWhatChanges(t *testing.T) {
	f := newFleet(t, "a")
	f.runDeploying()
	template := f.templated("a", configMap, deployment)
	available := func(want string) func(a *addonv1alpha1.ManagedClusterAddOn) bool {
		return func(a *addonv1alpha1.ManagedClusterAddOn) bool {
			return strings.HasPrefix(text(a.Status.Conditions, "Available"), want)
		}
	}
	w := f.workOf("a", "first", func(*workv1.ManifestWork) bool { return true })
	f.running("a", 1)
	f.until("a", "its pods run", available("True/ProbeAvailable/"+f.name+" add-on is available."))
	f.running("a", 0)
	f.until("a", "its pods do not run", available("False/ProbeUnavailable/"))
	f.running("a", 1)
	f.until("a", "its pods run again", available("True/"))
	f.report("a", metav1.ConditionUnknown)
	f.until("a", "the cluster is silent", available("Unknown/Test"))
	f.report("a", metav1.ConditionTrue)
	f.until("a", "the cluster is back", available("True/"))

	f.Merge(w, `{"metadata":{"annotations":{"open-cluster-management.io/config-spec-hash":"x"}}}`)
	f.workOf("a", "a work that others change", func(w *workv1.ManifestWork) bool {
		return w.Annotations["open-cluster-management.io/config-spec-hash"] != "x"
	})
	f.Must(f.Delete(context.Background(), w))
	f.workOf("a", "a work that others delete", func(got *workv1.ManifestWork) bool { return got.UID != w.UID })

	f.Must(f.Get(context.Background(), keyOf(template), template))
	template.Spec.AgentSpec.Workload.Manifests = manifests(strings.Replace(configMap, `"x"`, `"z"`, 1))
	f.Must(f.Update(context.Background(), template))
	f.workOf("a", "the template", func(w *workv1.ManifestWork) bool { return objectOf(t, w.Spec.Workload.Manifests[0]).GetName() == "z" })

	// A template that is deleted and comes back as it was: nothing of the add-on changes.
	f.Remove(template)
	f.Must(f.Delete(context.Background(), f.workOf("a", "there", func(*workv1.ManifestWork) bool { return true })))
	f.until("a", "the template is gone", func(a *addonv1alpha1.ManagedClusterAddOn) bool {
		return strings.Contains(text(a.Status.Conditions, "ManifestApplied"), "AddOnTemplate")
	})
	template.ResourceVersion, template.UID = "", ""
	f.Make(template)
	f.workOf("a", "the template is back", func(*workv1.ManifestWork) bool { return true })
}

// A change of one configuration writes each work once, and without a change nothing is
// written.
func TestWritesOfManyClusters(t *testing.T) {
	const n = 20
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("c%d", i))
	}
	f := newFleet(t, strings.Join(names, " "))
	config := f.deploymentConfig("one", "test")
	requests := f.runDeploying()
	f.place("p", "0:"+strings.Join(names, ","))
	template := &addonv1alpha1.AddOnTemplate{ObjectMeta: metav1.ObjectMeta{Name: f.name}}
	template.Spec.AddonName = f.name
	template.Spec.AgentSpec.Workload.Manifests = manifests(strings.Replace(configMap, "CLUSTER_NAME", "test", 1), deployment)
	f.Make(template)
	placement := f.strategy("p", "")
	placement.Configs = f.deploymentConfigs("one")
	f.fromTemplate(placement)
	value := func(want string) func(w *workv1.ManifestWork) bool {
		return func(w *workv1.ManifestWork) bool {
			return len(w.Spec.Workload.Manifests) == 2 && objectOf(t, w.Spec.Workload.Manifests[0]).Object["data"].(map[string]any)["cluster"] == want
		}
	}
	for _, name := range names {
		f.workOf(name, "deployed", value("test"))
	}
	for _, name := range names {
		f.running(name, 1)
	}
	for _, name := range names {
		f.until(name, "available", func(a *addonv1alpha1.ManagedClusterAddOn) bool {
			return strings.HasPrefix(text(a.Status.Conditions, "Available"), "True/") && text(a.Status.Conditions, "Progressing") == completed
		})
	}
	t.Logf("to install: %v", requests.take())
	f.Merge(config, `{"spec":{"customizedVariables":[{"name":"test","value":"new"}]}}`)
	for _, name := range names {
		f.workOf(name, "changed", value("new"))
	}
	for _, name := range names {
		f.until(name, "progressing", func(a *addonv1alpha1.ManagedClusterAddOn) bool {
			return text(a.Status.Conditions, "Progressing") == notReady
		})
	}
	got := requests.take()
	t.Logf("to change: %v", got)
	// An add-on whose work's change is seen late needs a second write.
	if writes := got["PATCH managedclusteraddons"]; got["PATCH manifestworks"] != n || writes < n || writes > n+n/4 ||
		len(got) != 2 {
		t.Errorf("a change of one configuration in %d clusters needs %v", n, got)
	}
	// What matters to nobody here.
	for _, name := range names[:10] {
		f.Merge(f.in(name), `{"metadata":{"labels":{"x":"y"}}}`)
		f.report(name, metav1.ConditionTrue)
	}
	f.running(names[0], 0)
	f.until(names[0], "seen", func(a *addonv1alpha1.ManagedClusterAddOn) bool {
		return strings.HasPrefix(text(a.Status.Conditions, "Available"), "False/")
	})
	// One more when another controller was faster.
	if got := requests.take(); got["PATCH managedclusteraddons"] > 2 || len(got) != 1 {
		t.Errorf("a change that matters to one cluster makes %v", got)
	}
}
