package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	musterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/explain"
	"github.com/muster-fleet/terraform-provider-muster/runtime/explain/facts"
)

func objectMeta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

// explainedFleet has one object of each kind that can be explained.
func explainedFleet() *fake.ClientBuilder {
	return fake.NewClientBuilder().WithScheme(api.Scheme()).WithObjects(
		member("paris", 1, muster.ReasonEndpointCurrent, metav1.ConditionTrue),
		&workv1.ManifestWork{ObjectMeta: objectMeta("paris", "web")},
		&workv1.ManifestWork{ObjectMeta: objectMeta("rome", "web")},
		&clusterv1beta1.Placement{ObjectMeta: objectMeta("shop", "all")},
		&workv1alpha1.ManifestWorkReplicaSet{ObjectMeta: objectMeta("shop", "web")},
		inCluster("paris", "metrics", "Available=True"),
		&musterv1alpha1.LogicalCloud{ObjectMeta: objectMeta("team", "prod")},
	)
}

func explainedAs(t *testing.T, c client.Client, kind, arg, namespace string) (explain.Explanation, error) {
	t.Helper()
	for _, k := range explainedKinds() {
		if k.name == kind {
			key, err := k.parse(arg, namespace)
			if err != nil {
				return explain.Explanation{}, err
			}
			return k.run(facts.NewReader(t.Context(), c), key)
		}
	}
	t.Fatalf("%s is not explained", kind)
	return explain.Explanation{}, nil
}

func TestExplainReadsEachKind(t *testing.T) {
	c := explainedFleet().Build()
	for _, x := range []struct{ kind, name, namespace, state, level string }{
		{"cluster", "paris", "", "paris is denied: its agent has no rights on the hub.", "warning"},
		{"work", "paris/web", "", "The work web in paris is not applied yet.", "warning"},
		{"work", "web", "rome", "The work web in rome is not applied yet.", "problem"},
		{"placement", "shop/all", "", "The placement shop/all has not been decided yet.", "waiting"},
		{"rollout", "shop/web", "shop", "The replica set shop/web has not been looked at by the hub yet.", "waiting"},
		{"addon", "paris/metrics", "", "The add-on metrics in paris is available.", "problem"},
		{"cloud", "team/prod", "", "The logical cloud team/prod has not been looked at by the hub yet.", "waiting"},
	} {
		e, err := explainedAs(t, c, x.kind, x.name, x.namespace)
		if err != nil || e.State != x.state || string(e.Level) != x.level {
			t.Errorf("%s %s: %v, it is %s: %s", x.kind, x.name, err, e.Level, e.State)
		}
	}
}

func TestExplainOfWhatIsNotThere(t *testing.T) {
	c := explainedFleet().Build()
	for _, x := range []struct{ kind, name, namespace, want string }{
		{"cluster", "pariz", "", "there is no managed cluster pariz on the hub: did you mean paris?"},
		{"cluster", "x", "", "there is no managed cluster x on the hub: there are paris"},
		{"work", "oslo/web", "", "there is no ManifestWork oslo/web on the hub: did you mean paris/web or rome/web?"},
		{"work", "web", "", `"web" does not say which ManifestWork: write CLUSTER/NAME, or name the cluster with -n`},
		{"cluster", "a/b", "", `"a/b" does not name a managed cluster: write its name, as in paris`},
		{"work", "paris/web", "rome", `"paris/web" and --namespace rome contradict each other: leave one of them out`},
	} {
		if _, err := explainedAs(t, c, x.kind, x.name, x.namespace); err == nil || err.Error() != x.want {
			t.Errorf("%s %s: %v", x.kind, x.name, err)
		}
	}
	if _, err := explainedAs(t, fake.NewClientBuilder().WithScheme(api.Scheme()).Build(), "cluster", "x",
		""); err == nil ||
		err.Error() != "there is no managed cluster x on the hub: it has none at all" {
		t.Errorf("of nothing: %v", err)
	}
}

func TestExplainSaysWhatMayNotBeRead(t *testing.T) {
	refused := apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no"))
	c := explainedFleet().WithInterceptorFuncs(interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return refused },
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
			options ...client.GetOption) error {
			if _, ok := o.(*coordinationv1.Lease); ok {
				return refused
			}
			return c.Get(ctx, key, o, options...)
		},
	}).Build()
	for kind, x := range map[string]struct{ name, want string }{
		"cluster": {"paris", "you may not read the lease in paris, so the last heartbeat is left out; " +
			"you may not read certificate requests, so those of its agent are left out"},
		"placement": {"shop/all", "you may not read the ManagedClusterSetBindings in shop, so why clusters are not " +
			"selected is left out"},
		"rollout": {"shop/web", "you may not read ManifestWorks, so how far it is in which cluster is left out"},
		"cloud":   {"team/prod", "you may not read AccessRequests in team, so who has access is left out"},
	} {
		e, err := explainedAs(t, c, kind, x.name, "")
		if said := strings.Join(e.Hidden, "; "); err != nil || e.State == "" || !strings.HasPrefix(said, x.want) {
			t.Errorf("%s: %v, %q", kind, err, said)
		}
	}
	var out bytes.Buffer
	e, _ := explainedAs(t, c, "cloud", "team/prod", "")
	if err := printExplanation(&out, e, formatText); err != nil || !strings.HasSuffix(out.String(),
		"\n\nyou may not read AccessRequests in team, so who has access is left out\n") {
		t.Errorf("%v, it says\n%s", err, out.String())
	}
}

func TestExplainPrints(t *testing.T) {
	e := explain.Explanation{Kind: "ManagedCluster", Name: "paris", Level: explain.Problem,
		State: "paris is \x1b[2Jaway.", Causes: []explain.Cause{{
			Level: explain.Problem, Summary: "It is.", Evidence: []string{"seen"}, Next: []explain.Step{
				{Do: "look",
					Command: "kubectl get pods", In: "paris"}, {Do: "join",
					Command: "muster rejoin paris > file"}, {Do: "see", Command: "kubectl get csr"},
				{Do: "pray"},
			},
		}}}
	at := hubFlags{dataDir: t.TempDir(), kubeconfig: "explain_test.go", context: "b"} // any file that exists
	at.complete(&e)
	var out bytes.Buffer
	if err := printExplanation(&out, e, formatText); err != nil {
		t.Fatal(err)
	}
	const want = `paris is  [2Jaway.

PROBLEM: It is.
  - seen
  > look, in the cluster paris:
      kubectl get pods
  > join:
      muster rejoin paris --kubeconfig explain_test.go --context b > file
  > see:
      kubectl get csr --kubeconfig explain_test.go --context b
  > pray
`
	if out.String() != want {
		t.Errorf("it says\n%s", out.String())
	}
	out.Reset()
	var got explain.Explanation
	if err := printExplanation(&out, e, formatJSON); err != nil || json.Unmarshal(out.Bytes(), &got) != nil ||
		got.Causes[0].Next[0].In != "paris" {
		t.Errorf("%v, as JSON\n%s", err, out.String())
	}
}

func TestExplainCompletesNames(t *testing.T) {
	r := facts.NewReader(t.Context(), explainedFleet().Build())
	for _, k := range explainedKinds() {
		want := map[string]string{"cluster": "paris", "work": "paris/web rome/web", "placement": "shop/all",
			"rollout": "shop/web",
			"addon":   "paris/metrics", "cloud": "team/prod"}[k.name]
		if got := strings.Join(r.Names(k.kind, ""), " "); got != want {
			t.Errorf("%s: %q, want %q", k.name, got, want)
		}
	}
	if got := strings.Join(r.Names(workv1.GroupVersion.WithKind("ManifestWork"), "rome"), " "); got != "rome/web" {
		t.Errorf("in rome: %q", got)
	}
}
