package hostile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/storage/etcd3/metrics"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testfleet"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	runtimehub "github.com/muster-fleet/terraform-provider-muster/runtime/hub"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/budget"
)

const (
	// atOnce is how many objects of a kind an owner may create in the tests.
	atOnce = 4
	// largest is the greatest size of an object in bytes.
	largest = 4 << 10
)

// smallBudgets are limits that a test uses up in a moment.
func smallBudgets() *budget.Limits {
	owner := budget.Owner{
		Written: budget.Rate{AtOnce: 1 << 20, PerSecond: 1 << 20},
		Default: budget.Kind{Creations: budget.Rate{AtOnce: atOnce, PerSecond: 1}, Object: largest, Objects: 1000, Bytes: 1 << 20},
		Full:    0.5,
	}
	return &budget.Limits{Cluster: owner, Token: owner, User: owner}
}

// frugal is a hub in this process with small budgets and a clock that stands still.
type frugal struct {
	testfleet.Hub
	clock *clocktesting.FakeClock
}

func newFrugal(t *testing.T, limits *budget.Limits) frugal {
	t.Helper()
	clk := clocktesting.NewFakeClock(time.Now())
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan runtimehub.Ready, 1), make(chan error, 1)
	go func() {
		o := runtimehub.Options{DataDir: t.TempDir(), Clock: clk, Budgets: limits, Log: logr.Discard()}
		done <- runtimehub.Run(ctx, o, func(r runtimehub.Ready) { ready <- r })
	}()
	var kubeconfig string
	select {
	case r := <-ready:
		kubeconfig = r.Kubeconfig
	case err := <-done:
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		metrics.SetStorageMonitorGetter(func() ([]metrics.Monitor, error) { return nil, nil })
		testkit.Must(t, <-done)
	})
	admin, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	testkit.Must(t, err)
	admin.QPS = -1
	return frugal{testfleet.Hub{Admin: admin}, clk}
}

// creatable are the kinds that a user can create and read again, in a namespace or in
// none, as discovery and the authorizer say. What can't be read again is not kept.
func (f frugal) creatable(t *testing.T, who *rest.Config, namespace string) (kinds []schema.GroupVersionKind) {
	t.Helper()
	_, lists, err := testfleet.Clientset(t, f.Admin).Discovery().ServerGroupsAndResources()
	testkit.Must(t, err)
	reviews := testfleet.Clientset(t, who).AuthorizationV1().SelfSubjectAccessReviews()
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		testkit.Must(t, err)
		for _, r := range list.APIResources {
			if strings.Contains(r.Name, "/") || !slices.Contains(r.Verbs, "create") || !slices.Contains(r.Verbs, "get") {
				continue
			}
			asked := &authorizationv1.ResourceAttributes{Group: gv.Group, Version: gv.Version, Resource: r.Name, Verb: "create"}
			if r.Namespaced {
				asked.Namespace = namespace
			}
			review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: asked}}
			review, err := reviews.Create(context.Background(), review, metav1.CreateOptions{})
			testkit.Must(t, err)
			if review.Status.Allowed {
				kinds = append(kinds, gv.WithKind(r.Kind))
			}
		}
	}
	return kinds
}

// samples complete objects of kinds that an empty spec does not suffice for.
var samples = map[string]func(map[string]any){
	"WorkPreview": func(o map[string]any) { o["spec"] = map[string]any{"workName": "w"} },
	"Event": func(o map[string]any) {
		about := map[string]any{"namespace": o["metadata"].(map[string]any)["namespace"], "kind": "Pod", "name": "x"}
		if o["apiVersion"] == "v1" {
			o["involvedObject"], o["reason"] = about, "Flood"
			return
		}
		o["regarding"], o["reason"], o["action"], o["type"] = about, "Flood", "Flood", "Normal"
		o["reportingController"], o["reportingInstance"], o["eventTime"] = "x", "x", "2026-01-01T00:00:00.000000Z"
	},
	"RoleBinding": func(o map[string]any) {
		o["roleRef"] = map[string]any{"apiGroup": rbacv1.GroupName, "kind": "ClusterRole", "name": "cluster-admin"}
	},
	"LeaseCandidate": func(o map[string]any) {
		o["spec"] = map[string]any{"leaseName": "x", "binaryVersion": "1.0.0", "emulationVersion": "1.0.0", "strategy": "OldestEmulationVersion"}
	},
	"ManifestWork": func(o map[string]any) { o["spec"] = workload() },
	"ManifestWorkReplicaSet": func(o map[string]any) {
		o["spec"] = map[string]any{"placementRefs": []any{map[string]any{"name": "x"}}, "manifestWorkTemplate": workload()}
	},
	"LogicalCloud": func(o map[string]any) {
		o["spec"] = map[string]any{"namespace": map[string]any{"name": "shop"}, "placements": []any{map[string]any{"name": "x"}}}
	},
}

func workload() map[string]any {
	manifest := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a", "namespace": "default"}}
	return map[string]any{"workload": map[string]any{"manifests": []any{manifest}}}
}

// elsewhere are kinds that nobody can create by rights to the kind alone, and why.
var elsewhere = map[string]string{
	"CertificateSigningRequest": "see TestAFloodOfCertificateRequestsEndsInARefusal",
	"ClusterCredential":         "only the hub creates them, whatever the rights are",
	"AccessRequest":             "need the right to use a logical cloud, and have a limit for each user",
	"ManagedClusterSetBinding":  "need the right to bind the set, which is outside the namespace, and have its name",
}

// sample is an object of a kind, and padded by so many bytes.
func sample(k schema.GroupVersionKind, namespace, name string, padding int) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
	o.SetGroupVersionKind(k)
	o.SetNamespace(namespace)
	o.SetName(name)
	if complete := samples[k.Kind]; complete != nil {
		complete(o.Object)
	}
	if padding > 0 {
		o.SetAnnotations(map[string]string{"padding": strings.Repeat("x", padding)})
	}
	return o
}

// once is a transport that hides from the client when to come back, so that it reports
// a refusal at once.
type once struct{ http.RoundTripper }

func (o once) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := o.RoundTripper.RoundTrip(r)
	if answer != nil {
		answer.Header.Del("Retry-After")
	}
	return answer, err
}

// anyKind is a client that learns the kinds from the server.
func anyKind(t *testing.T, c *rest.Config) client.Client {
	t.Helper()
	k, err := client.New(c, client.Options{})
	testkit.Must(t, err)
	return k
}

// withoutRetries is for a client that takes the first answer of the hub.
func withoutRetries(c *rest.Config) *rest.Config {
	c = rest.CopyConfig(c)
	c.Wrap(func(r http.RoundTripper) http.RoundTripper { return once{r} })
	return c
}

// refusedForBudget is what every flood has to end in.
func refusedForBudget(t *testing.T, what string, err error, code int32) {
	t.Helper()
	attempts.Add(1)
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Code != code {
		t.Errorf("%s: got %v, want a refusal with the code %d", what, err, code)
		return
	}
	refusals.Add(1)
}

// For every kind that a cluster may create: objects that are too large are refused, and
// a flood of small ones ends in a refusal, while the administrator and another cluster
// go on; when time has passed, there is room again.
func TestAFloodOfEachKindEndsInARefusal(t *testing.T) {
	ctx := context.Background()
	f := newFrugal(t, smallBudgets())
	agent, other := f.Joined(t, "flood", "a"), f.Joined(t, "calm", "a")
	admin := anyKind(t, f.Admin)
	// An add-on whose template grants it all that can be granted in the namespace.
	addOn := f.As(func(c *rest.Config) {
		*c = *rest.CopyConfig(f.Admin)
		group := cluster.UserPrefix + "cluster:flood:addon:greedy"
		c.Impersonate = rest.ImpersonationConfig{UserName: group + ":agent:x", Groups: []string{group, "system:authenticated"}}
	})
	testkit.Must(t, admin.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "flood", Name: "greedy"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: cluster.UserPrefix + "cluster:flood:addon:greedy"}},
	}))
	testkit.Eventually(t, func() error {
		if kinds := f.creatable(t, addOn, "flood"); len(kinds) < 5 {
			return fmt.Errorf("the add-on may create %v only", kinds)
		}
		return nil
	})
	flooded := map[string]bool{}
	for who, config := range map[string]*rest.Config{"the agent": agent, "the add-on": addOn} {
		c := anyKind(t, withoutRetries(config))
		for _, k := range f.creatable(t, config, "flood") {
			flooded[k.Kind] = true
			if elsewhere[k.Kind] != "" {
				continue
			}
			what := fmt.Sprintf("%s creates %s of %s", who, k.Kind, k.GroupVersion())
			mark := strings.ReplaceAll(who[4:6]+"-"+k.Group+"-"+k.Version, ".", "")
			f.clock.Step(time.Minute)
			refusedForBudget(t, what+" that are too large", c.Create(ctx, sample(k, "flood", "large", 2*largest)), http.StatusForbidden)
			refusedForBudget(t, what+" that are far too large", c.Create(ctx, sample(k, "flood", "large", 20*largest)), http.StatusForbidden)
			for i := range atOnce {
				if err := c.Create(ctx, sample(k, "flood", fmt.Sprintf("flood-%s-%d", mark, i), 0)); err != nil {
					t.Errorf("%s: number %d of the %d that it may: %v", what, i, atOnce, err)
				}
			}
			refusedForBudget(t, what+" too often", c.Create(ctx, sample(k, "flood", "too-many", 0)), http.StatusTooManyRequests)
			// Whatever this cluster does, others are served.
			event := schema.GroupVersionKind{Version: "v1", Kind: "Event"}
			harmless(t, "another cluster goes on", testfleet.Client(t, other).Create(ctx, sample(event, "calm", "calm-"+strings.ToLower(k.Kind)+mark, 0)))
			harmless(t, "the administrator goes on", admin.Create(ctx, sample(k, "flood", "admin-"+mark, 2*largest)))
			f.clock.Step(time.Second)
			harmless(t, what+" after a second", c.Create(ctx, sample(k, "flood", "later-"+mark, 0)))
		}
	}
	for _, want := range []string{"Event", "CertificateSigningRequest", "ConfigMap", "Lease", "ManifestWork", "AddOnPlacementScore", "Placement"} {
		if !flooded[want] {
			t.Errorf("nobody was found to create %s; found: %v", want, flooded)
		}
	}
}

func TestAFloodOfCertificateRequestsEndsInARefusal(t *testing.T) {
	ctx := context.Background()
	f := newFrugal(t, smallBudgets())
	agent := f.Joined(t, "flood", "a")
	_, token := f.BootstrapToken(t, cluster.BootstrapGroup, nil)
	for who, config := range map[string]*rest.Config{"the agent": agent, "the token": f.WithToken(token)} {
		f.clock.Step(time.Minute)
		c := testfleet.Client(t, withoutRetries(config))
		request := func(i, padding int) error {
			r, _ := testfleet.CertificateRequest(t, "flood", fmt.Sprint("agent", i))
			if who == "the token" {
				name := fmt.Sprint("new", i)
				r, _ = testfleet.CertificateRequest(t, name, "a")
			}
			if padding > 0 {
				r.Annotations = map[string]string{"padding": strings.Repeat("x", padding)}
			}
			return c.Create(ctx, r)
		}
		refusedForBudget(t, who+" sends a request that is too large", request(0, 2*largest), http.StatusForbidden)
		for i := range atOnce {
			harmless(t, who+" sends a request", request(i, 0))
		}
		refusedForBudget(t, who+" sends too many requests", request(atOnce, 0), http.StatusTooManyRequests)
	}
}

// What others have created can be made to grow by a cluster: its status, labels, managed
// fields.
func TestAFloodOfReportsEndsInARefusal(t *testing.T) {
	ctx := context.Background()
	limits := smallBudgets()
	limits.Cluster.Default.Object, limits.Cluster.Default.Bytes = 0, 64<<10
	f := newFrugal(t, limits)
	agent := f.Joined(t, "flood", "a")
	admin, c := testfleet.Client(t, f.Admin), testfleet.Client(t, withoutRetries(agent))
	grow := func(i, size int) error {
		w := newWork(t, "flood", fmt.Sprint("w", i), &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}})
		if err := admin.Create(ctx, w); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		patch := fmt.Sprintf(`{"status":{"conditions":[{"type":"X","status":"True","reason":"X","lastTransitionTime":"2026-01-01T00:00:00Z","message":%q}]}}`, strings.Repeat("x", size))
		return c.Status().Patch(ctx, w, client.RawPatch(types.MergePatchType, []byte(patch)))
	}
	for i := range 2 {
		harmless(t, "a report", grow(i, 20<<10))
	}
	refusedForBudget(t, "reports beyond the budget", grow(2, 30<<10), http.StatusForbidden)
	harmless(t, "a smaller report", grow(0, 10))
	f.clock.Step(time.Minute)
	harmless(t, "then there is room", grow(2, 20<<10))
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "flood", Name: cluster.LeaseName}}
	testkit.Eventually(t, func() error { return c.Get(ctx, client.ObjectKeyFromObject(lease), lease) })
	lease.Annotations = map[string]string{"padding": strings.Repeat("x", 80<<10)}
	refusedForBudget(t, "a lease as a store", c.Update(ctx, lease), http.StatusForbidden)
	for i := range 100 {
		patch := fmt.Sprintf(`{"apiVersion":"work.open-cluster-management.io/v1","kind":"ManifestWork","metadata":{"name":"w1","namespace":"flood","annotations":{"a%d":%q}}}`, i, strings.Repeat("y", 1000))
		w := newWork(t, "flood", "w1")
		if err := c.Patch(ctx, w, client.RawPatch(types.ApplyPatchType, []byte(patch)), client.FieldOwner(fmt.Sprint("manager", i)), client.ForceOwnership); err != nil {
			refusedForBudget(t, "managed fields and annotations", err, http.StatusForbidden)
			return
		}
	}
	t.Error("100 KB of annotations and managers of fields were taken")
}

// Above its part of the store's quota an owner creates nothing and lets nothing grow, and
// all that keeps the fleet alive goes on. Here the part is 0, so any store is too full.
func TestAStoreThatFillsUpIsTheAdministrators(t *testing.T) {
	ctx := context.Background()
	limits := smallBudgets()
	limits.Cluster.Full, limits.Cluster.Default.Object = 0, 0
	f := newFrugal(t, limits)
	agent := f.Joined(t, "flood", "a")
	admin, c := testfleet.Client(t, f.Admin), testfleet.Client(t, withoutRetries(agent))
	err := c.Create(ctx, sample(schema.GroupVersionKind{Version: "v1", Kind: "Event"}, "flood", "e", 0))
	refusedForBudget(t, "an event", err, http.StatusInsufficientStorage)
	if err != nil && !strings.Contains(err.Error(), "only administrators and the hub itself add to it") {
		t.Errorf("the refusal does not explain itself: %v", err)
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "flood", Name: cluster.LeaseName}}
	testkit.Eventually(t, func() error { return c.Get(ctx, client.ObjectKeyFromObject(lease), lease) })
	lease.Spec.RenewTime = &metav1.MicroTime{Time: f.clock.Now().Add(time.Second)}
	harmless(t, "a heartbeat", c.Update(ctx, lease))
	lease.Annotations = map[string]string{"padding": strings.Repeat("x", 8<<10)}
	refusedForBudget(t, "a lease that grows", c.Update(ctx, lease), http.StatusInsufficientStorage)
	harmless(t, "the administrator", admin.Create(ctx, newWork(t, "flood", "w", &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}})))
	f.Joined(t, "next", "a") // the hub's controllers accept, approve and sign
	var store hubinfo.Store
	answer, err := testfleet.Clientset(t, f.Admin).Discovery().RESTClient().Get().AbsPath(hubinfo.StorePath).DoRaw(ctx)
	if err != nil || json.Unmarshal(answer, &store) != nil || !store.Filling || store.InUse == 0 || store.Quota != 8<<30 {
		t.Errorf("the hub says of its store: %s, %v", answer, err)
	}
	_, err = testfleet.Clientset(t, agent).Discovery().RESTClient().Get().AbsPath(hubinfo.StorePath).DoRaw(ctx)
	refused(t, "an agent asks how full the store is", err)
	answer, err = testfleet.Clientset(t, f.Admin).Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	testkit.Must(t, err)
	for _, want := range []string{`muster_budget_refusals_total{budget="store",owner="cluster"}`, `muster_store_bytes{what="quota"} 8.589934592e+09`} {
		if !strings.Contains(string(answer), want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
}
