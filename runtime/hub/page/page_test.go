package page

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/muster-fleet/terraform-provider-muster/internal/restmapper"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	musterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/features"
)

// get asks for a page as a user with rights, each as "verb resource namespace/name".
func get(t *testing.T, path string, rights ...string) *httptest.ResponseRecorder {
	t.Helper()
	at := metav1.NewTime(time.Date(2026, 11, 27, 8, 0, 0, 0, time.UTC))
	in := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, CreationTimestamp: at}
	}
	until := metav1.NewTime(at.Add(3 * time.Hour))
	set := &workv1alpha1.ManifestWorkReplicaSet{ObjectMeta: in("shop", "web")}
	set.Spec.PlacementRefs = []workv1alpha1.LocalPlacementReference{{Name: "web"}}
	set.Status.Summary = workv1alpha1.ManifestWorkReplicaSetSummary{Total: 4, Applied: 4, Available: 3}
	cloud := &musterv1alpha1.LogicalCloud{ObjectMeta: in("shop", "prod")}
	cloud.Status.Clusters = musterv1alpha1.CloudClusters{Selected: 2, Ready: 1, Failed: 1,
		Failing: []musterv1alpha1.FailingCluster{{Name: "rome", Reason: "ApplyFailed", Message: "forbidden"}}}
	asked := &musterv1alpha1.AccessRequest{ObjectMeta: in("shop", "jo-1")}
	asked.Spec.LogicalCloud, asked.Spec.ManagedCluster, asked.Spec.User = "prod", "paris", "jo@example.com"
	asked.Status.NotAfter = &until
	asked.Status.Conditions = []metav1.Condition{{Type: "Issued", Status: metav1.ConditionTrue}}
	decision := &clusterv1beta1.PlacementDecision{ObjectMeta: in("shop", "web-1")}
	decision.Labels = map[string]string{"cluster.open-cluster-management.io/placement": "web"}
	decision.Status.Decisions = []clusterv1beta1.ClusterDecision{{ClusterName: "paris"}}
	gates := features.NewHub()
	if err := gates.Set("ClusterImport=true"); err != nil {
		t.Fatal(err)
	}
	hub := fake.NewClientBuilder().WithScheme(api.Scheme()).WithRESTMapper(restmapper.Static()).WithObjects(
		&clusterv1.ManagedCluster{ObjectMeta: in("", "paris")}, &clusterv1beta1.Placement{ObjectMeta: in("shop",
			"web")},
		&workv1.ManifestWork{ObjectMeta: in("paris", "web")}, set, cloud, asked, decision,
		&addonv1alpha1.ManagedClusterAddOn{ObjectMeta: in("paris", "metrics")},
		&musterv1alpha1.ClusterImport{ObjectMeta: in("", "paris"),
			Spec: musterv1alpha1.ClusterImportSpec{KubeconfigSecret: "paris-admin"}},
	).WithIndex(&corev1.Event{}, "involvedObject.kind", func(client.Object) []string { return nil }).
		WithInterceptorFuncs(interceptor.Funcs{Create: func(_ context.Context, _ client.WithWatch, o client.Object,
			_ ...client.CreateOption) error {
			review := o.(*authorizationv1.SubjectAccessReview)
			a := review.Spec.ResourceAttributes
			for _, right := range rights {
				words := strings.Fields(right)
				review.Status.Allowed = review.Status.Allowed || (words[0] == "*" || words[0] == a.Verb &&
					words[1] == a.Resource) &&
					(words[2] == "*" || words[2] == a.Namespace+"/"+a.Name)
			}
			return nil
		}}).Build()
	h := NewHandler(Options{Cached: hub, Stored: hub, Clock: clocktesting.NewFakePassiveClock(at.Add(time.Hour)),
		Features: gates, Version: "v1"})
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r = r.WithContext(request.WithUser(r.Context(), &user.DefaultInfo{Name: "jo"}))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// A page shows what its user may read, and names what is left out.
func TestPagesShowWhatTheUserMayRead(t *testing.T) {
	const all, everything = "list managedclusters *", "* * *"
	for name, x := range map[string]struct {
		path   string
		rights []string
		status int
		want   []string
	}{
		"nobody": {"/ui/", nil, 200, []string{"Logged in as <bdi>jo", "you may not list clusters in all namespaces",
			"you may not list works"}},
		"the overview": {"/ui/", []string{all}, 200, []string{`href="/ui/clusters?level=waiting"`,
			"Nothing that you may see is in trouble", "!you may not list clusters"}},
		"a list": {"/ui/clusters", []string{all}, 200, []string{"1 of 1", `href="/ui/clusters/paris"`,
			"waits to be accepted"}},
		"one without the right": {"/ui/clusters", nil, 200, []string{"you may not list clusters of this hub",
			"!paris"}},
		"a right in a namespace": {"/ui/clusters?namespace=shop", []string{"list managedclusters shop/"}, 200,
			[]string{"you may not list clusters", "!paris"}},
		"a right to one object": {"/ui/clusters/paris", []string{"get managedclusters /paris"}, 200,
			[]string{"paris waits to be accepted", "you may not read certificate requests",
				"you may not list works in paris"}},
		"no right to it": {"/ui/clusters/paris", []string{all}, 403, []string{"You may not see this",
			"!accepted"}},
		"none to one that is not": {"/ui/clusters/rome", []string{all}, 403, []string{"You may not see this"}},
		"a cluster that is not": {"/ui/clusters/rome", []string{"get managedclusters /rome"}, 404,
			[]string{"It is not there"}},
		"works of a cluster": {"/ui/works?namespace=paris", []string{"list manifestworks paris/"}, 200,
			[]string{"web", "1 of 1"}},
		"works of all": {"/ui/works", []string{"list manifestworks paris/"}, 200,
			[]string{"fill in one in which you may", "!paris"}},
		"a filter":            {"/ui/clusters?q=ROME", []string{all}, 200, []string{"0 of 1", "Nothing matches"}},
		"a filter by level":   {"/ui/clusters?level=waiting", []string{all}, 200, []string{"1 of 1", "paris"}},
		"a level that is not": {"/ui/clusters?level=bad", []string{all}, 400, []string{"is no level: choose ok"}},
		"labels that can't be read": {"/ui/clusters?labels=%3D", []string{all}, 400,
			[]string{"write it as in env=prod"}},
		"a page that is not":      {"/ui/clusters?page=0", []string{all}, 400, []string{"is no number of a page"}},
		"a page after the last":   {"/ui/clusters?page=7", []string{all}, 200, []string{"Nothing matches"}},
		"a page that nobody made": {"/ui/x/y/z", []string{all}, 404, []string{"There is no such page"}},
		"a refresh": {"/ui/clusters?q=a&refresh=yes", []string{all}, 200, []string{`content="30"`,
			`href="/ui/clusters?q=a"`}},
	} {
		t.Run(name, func(t *testing.T) {
			w := get(t, x.path, x.rights...)
			if w.Code != x.status {
				t.Errorf("%d, want %d", w.Code, x.status)
			}
			for _, want := range x.want {
				if unwanted, not := strings.CutPrefix(want, "!"); strings.Contains(w.Body.String(), unwanted) == not {
					t.Errorf("want %q in\n%s", want, w.Body)
				}
			}
		})
	}
}

// The page has the kinds that the hub has.
func TestKindsWithoutTheirFeatureAreLeftOut(t *testing.T) {
	paths := func(gates string) (out string) {
		of := features.NewHub()
		if err := of.Set(gates); err != nil {
			t.Fatal(err)
		}
		for _, k := range kindsOf(of) {
			out += k.path + " "
		}
		return out
	}
	if got := paths("ClusterImport=true"); got != "clusters placements rollouts works addons imports clouds " {
		t.Errorf("got %s", got)
	}
	if got := paths("UserAccess=false,AddonManagement=false"); got != "clusters placements rollouts works " {
		t.Errorf("got %s", got)
	}
}
