package fleet_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testenv"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/debug"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// admin may do everything.
var admin = &user.DefaultInfo{Name: "root", Groups: []string{user.SystemPrivilegedGroup}}

// ask puts a question as a user; nobody is one without.
func ask(c client.Client, who user.Info, method, path, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if who != nil {
		r = r.WithContext(request.WithUser(r.Context(), who))
	}
	w := httptest.NewRecorder()
	debug.NewHandler(c, clocktesting.NewFakePassiveClock(now), scheduling.Options{}).ServeHTTP(w, r)
	return w
}

// fleet makes three clusters in a set that is bound to a new namespace: a and b
// are in prod, c has a taint; a is expensive, and the namespace's placement "p"
// has chosen it so far.
func fleet(t *testing.T) (namespace string, names [3]string) {
	t.Helper()
	ctx, c := context.Background(), env.Client()
	namespace = testenv.Namespace(t, c)
	create := func(o client.Object) {
		t.Helper()
		testkit.Must(t, c.Create(ctx, o))
		t.Cleanup(func() { testkit.Must(t, client.IgnoreNotFound(c.Delete(ctx, o))) })
	}
	create(&clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	create(&clusterv1beta2.ManagedClusterSetBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: namespace}, Spec: clusterv1beta2.ManagedClusterSetBindingSpec{ClusterSet: namespace}})
	for i, letter := range []string{"a", "b", "c"} {
		mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: letter + "-" + namespace, Labels: map[string]string{cluster.ClusterSetLabel: namespace, "env": "prod"}}}
		if letter == "c" {
			mc.Spec.Taints = []clusterv1.Taint{{Key: "down", Effect: clusterv1.TaintEffectNoSelect, TimeAdded: ptr.To(metav1.NewTime(now))}}
		}
		create(mc)
		names[i] = mc.Name
	}
	decide := func(placement, clusterName string) {
		t.Helper()
		d := &clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: placement + "-decision-1", Labels: map[string]string{cluster.PlacementLabel: placement}}}
		create(d)
		d.Status.Decisions = []clusterv1beta1.ClusterDecision{{ClusterName: clusterName}}
		testkit.Must(t, c.Status().Update(ctx, d))
	}
	decide("p", names[0])
	decide("another", names[1])
	return namespace, names
}

// score publishes a score of a cluster.
func score(t *testing.T, clusterName string, value int32) {
	t.Helper()
	ctx, c := context.Background(), env.Client()
	testkit.Must(t, client.IgnoreAlreadyExists(c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: clusterName}})))
	s := &clusterv1alpha1.AddOnPlacementScore{ObjectMeta: metav1.ObjectMeta{Namespace: clusterName, Name: "cost"}}
	testkit.Must(t, c.Create(ctx, s))
	s.Status.Scores = []clusterv1alpha1.AddOnPlacementScoreItem{{Name: "hourly", Value: value}}
	testkit.Must(t, c.Status().Update(ctx, s))
}

func answer(t *testing.T, w *httptest.ResponseRecorder) debug.Answer {
	t.Helper()
	var a debug.Answer
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil || w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("the answer %q of type %q is no JSON: %v", w.Body, w.Header().Get("Content-Type"), err)
	}
	return a
}

func TestExplainsAPlacement(t *testing.T) {
	namespace, names := fleet(t)
	p := &clusterv1beta1.Placement{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p", Labels: map[string]string{"l": "1"}, Annotations: map[string]string{"a": "2"}, Finalizers: []string{"example.org/hold"}},
		Spec: clusterv1beta1.PlacementSpec{
			NumberOfClusters: ptr.To[int32](1),
			Predicates:       []clusterv1beta1.ClusterPredicate{{RequiredClusterSelector: clusterv1beta1.ClusterSelector{LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}}}},
		},
	}
	testkit.Must(t, env.Client().Create(context.Background(), p))
	t.Cleanup(func() {
		p.Finalizers = nil
		testkit.Must(t, env.Client().Update(context.Background(), p))
		testkit.Must(t, env.Client().Delete(context.Background(), p))
	})
	w := ask(env.Client(), admin, http.MethodGet, debug.Path+namespace+"/p", "")
	a, b, c := names[0], names[1], names[2]
	want := `{"placement":{"metadata":{"name":"p","namespace":"NS","labels":{"l":"1"},"annotations":{"a":"2"}},` +
		`"spec":{"numberOfClusters":1,"predicates":[{"requiredClusterSelector":{"labelSelector":{"matchLabels":{"env":"prod"}}}}],"sortBy":"ClusterName","scoreRateLimit":"1m"}},` +
		`"filteredPipelineResults":[{"name":"Predicate","filteredClusters":["A","B","C"]},{"name":"Predicate,TaintToleration","filteredClusters":["A","B"]}],` +
		`"prioritizeResults":[{"name":"Balance","weight":1,"scores":{"A":100,"B":-100}},{"name":"Steady","weight":1,"scores":{"A":100,"B":0}}],` +
		`"aggregatedScores":[{"clusterName":"A","score":200},{"clusterName":"B","score":-100}],` +
		`"explanations":[` +
		`{"clusterName":"A","selected":true,"rank":1,"score":200,"scores":[{"name":"Balance","weight":1,"score":100},{"name":"Steady","weight":1,"score":100}],"reasons":["rank 1 of 2, 1 asked for"]},` +
		`{"clusterName":"B","selected":false,"rank":2,"score":-100,"scores":[{"name":"Balance","weight":1,"score":-100},{"name":"Steady","weight":1,"score":0}],"reasons":["rank 2 of 2, 1 asked for"]},` +
		`{"clusterName":"C","selected":false,"filter":"TaintToleration","score":0,"reasons":["untolerated taint down:NoSelect"]}]}` + "\n"
	want = strings.NewReplacer("NS", namespace, `"A"`, `"`+a+`"`, `"B"`, `"`+b+`"`, `"C"`, `"`+c+`"`).Replace(want)
	if got := w.Body.String(); w.Code != http.StatusOK || got != want {
		t.Errorf("got %d\n%s\nwant\n%s", w.Code, got, want)
	}
}

func TestSimulatesAPlacementThatDoesNotExist(t *testing.T) {
	namespace, names := fleet(t)
	score(t, names[0], 10)
	score(t, names[1], 60)
	score(t, names[2], 90)
	body := `{"apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "Placement", "metadata": {"namespace": "` + namespace + `", "name": "new"}, "spec": {
"tolerations": [{"operator": "Exists", "tolerationSeconds": 60}],
"predicates": [{"requiredClusterSelector": {"celSelector": {"celExpressions": ["managedCluster.scores('cost').exists(s, s.value > 50)"]}}}],
"prioritizerPolicy": {"mode": "Exact", "configurations": [{"scoreCoordinate": {"type": "AddOn", "addOn": {"resourceName": "cost", "scoreName": "hourly"}}, "weight": 2}]}}}`
	w := ask(env.Client(), admin, http.MethodPost, debug.Path, body)
	a := answer(t, w)
	if w.Code != http.StatusOK || len(a.Scores) != 2 || a.Scores[0] != (debug.Score{Cluster: names[2], Score: 180}) || a.Scores[1] != (debug.Score{Cluster: names[1], Score: 120}) {
		t.Errorf("got %d: %s", w.Code, w.Body)
	}
	left := &clusterv1beta1.Placement{}
	if err := env.Client().Get(context.Background(), client.ObjectKey{Namespace: namespace, Name: "new"}, left); err == nil {
		t.Error("the simulation has made the placement")
	}
}

func TestRefusals(t *testing.T) {
	namespace := testenv.Namespace(t, env.Client())
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "reader"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{cluster.GroupName}, Resources: []string{"placements"}, Verbs: []string{"get"}}}}
	testkit.Must(t, env.Client().Create(context.Background(), role))
	testkit.Must(t, env.Client().Create(context.Background(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "reader"},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"}, Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "reader"}}}))
	testkit.Must(t, env.Client().Create(context.Background(), &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p"}}))
	reader, stranger := &user.DefaultInfo{Name: "reader"}, &user.DefaultInfo{Name: "stranger"}
	here := debug.Path + namespace + "/"
	testkit.Eventually(t, func() error { // the authorizer learns of the role from a watch
		if w := ask(env.Client(), reader, "GET", here+"p", ""); w.Code != http.StatusOK {
			return fmt.Errorf("the reader got %d: %s", w.Code, w.Body)
		}
		return nil
	})
	body := `{"metadata": {"namespace": "` + namespace + `"}}`
	long := `{"metadata": {"namespace": "` + namespace + `", "annotations": {"a": "` + strings.Repeat("x", 1<<20) + `"}}}`
	for name, x := range map[string]struct {
		who                user.Info
		method, path, body string
		status             int
		message            string
	}{
		"the right to get":                   {reader, "GET", here + "p", "", http.StatusOK, ""},
		"the right to create":                {admin, "POST", debug.Path, body, http.StatusOK, ""},
		"a path without a name":              {admin, "GET", debug.Path + "ns", "", http.StatusBadRequest, "invalid debug path /debug/placements/ns: namespace and name required, as in /debug/placements/<namespace>/<name>"},
		"a path with an empty name":          {admin, "GET", debug.Path + "ns/", "", http.StatusBadRequest, "invalid debug path /debug/placements/ns/: namespace and name required"},
		"a path without anything":            {admin, "GET", debug.Path, "", http.StatusBadRequest, "invalid debug path /debug/placements/: namespace and name required"},
		"a path with more":                   {admin, "GET", here + "p/status", "", http.StatusBadRequest, "namespace and name required"},
		"a simulation at a placement's path": {admin, "POST", here + "p", body, http.StatusBadRequest, "a simulation is a POST to /debug/placements/"},
		"a body that is no JSON":             {admin, "POST", debug.Path, "spec: {}", http.StatusBadRequest, "read the placement in the request body, which has to be JSON: invalid character 's'"},
		"a body that is no placement":        {admin, "POST", debug.Path, `{"spec": {"numberOfClusters": "many"}}`, http.StatusBadRequest, "has to be JSON: json: cannot unmarshal"},
		"a body without a namespace":         {admin, "POST", debug.Path, `{"spec": {}}`, http.StatusBadRequest, "has no metadata.namespace"},
		"a body of more than a mebibyte":     {admin, "POST", debug.Path, long, http.StatusBadRequest, "request body too large: exceeds maximum of 1048576 bytes"},
		"nobody":                             {nil, "GET", here + "p", "", http.StatusUnauthorized, "user information not found in request context"},
		"the anonymous user":                 {&user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}, "GET", here + "p", "", http.StatusUnauthorized, "log in"},
		"no right to get":                    {stranger, "GET", here + "p", "", http.StatusForbidden, `user "stranger" does not have permission to get placements in namespace ` + namespace},
		"no right, and no placement":         {stranger, "GET", here + "none", "", http.StatusForbidden, "does not have permission"},
		"no right to create":                 {reader, "POST", debug.Path, body, http.StatusForbidden, `user "reader" does not have permission to create placements in namespace ` + namespace},
		"a placement that does not exist":    {reader, "GET", here + "none", "", http.StatusNotFound, "placement 'none' not found"},
		"another method":                     {admin, "PUT", here + "p", body, http.StatusMethodNotAllowed, "method PUT is not allowed"},
		"another method, by nobody":          {nil, "DELETE", here + "p", "", http.StatusUnauthorized, "user information not found"},
	} {
		t.Run(name, func(t *testing.T) {
			w := ask(env.Client(), x.who, x.method, x.path, x.body)
			if got := answer(t, w); w.Code != x.status || !strings.Contains(got.Error, x.message) || (x.message == "") != (got.Error == "") {
				t.Errorf("got %d %q, want %d %q", w.Code, got.Error, x.status, x.message)
			}
			if x.status != http.StatusOK && !strings.HasPrefix(w.Body.String(), `{"error":"`) {
				t.Errorf("more than an error is told: %s", w.Body)
			}
			if allow := w.Header().Get("Allow"); (allow == "GET, POST") != (x.status == http.StatusMethodNotAllowed) {
				t.Errorf("allowed methods: %q", allow)
			}
		})
	}
}

func TestSaysWhenTheHubFails(t *testing.T) {
	namespace := testenv.Namespace(t, env.Client())
	for name, x := range map[string]struct {
		funcs interceptor.Funcs
		want  string
	}{
		"to tell rights": {interceptor.Funcs{Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			return errors.New("broken")
		}}, "ask for the rights of root: broken"},
		"to list": {interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return errors.New("broken")
		}}, "gather what the placement " + namespace + "/p depends on: list the cluster set bindings of the namespace " + namespace + ": broken"},
	} {
		t.Run(name, func(t *testing.T) {
			live, err := client.NewWithWatch(env.Config("test"), client.Options{Scheme: env.Client().Scheme(), Mapper: env.Client().RESTMapper()})
			testkit.Must(t, err)
			w := ask(interceptor.NewClient(live, x.funcs), admin, "POST", debug.Path, `{"metadata": {"namespace": "`+namespace+`", "name": "p"}}`)
			if got := answer(t, w); w.Code != http.StatusInternalServerError || got.Error != x.want {
				t.Errorf("got %d %q, want 500 %q", w.Code, got.Error, x.want)
			}
		})
	}
}
