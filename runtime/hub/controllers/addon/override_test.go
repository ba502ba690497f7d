package addon_test

import (
	"context"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/addon/deploy"
)

const (
	regional = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":"x"},` +
		`"data":{"at":"{{REGION}}"}}`
	byLabel = `{"values":[{"name":"REGION","label":"region"}]}`
)

// overridden makes the add-on from a template with an override, in clusters.
func (f *fleet) overridden(clusters, own string) *addonv1alpha1.AddOnTemplate {
	f.Helper()
	t := &addonv1alpha1.AddOnTemplate{}
	t.Name, t.Annotations = f.name, map[string]string{muster.OverrideAnnotation: own}
	t.Spec.AddonName = f.name
	t.Spec.AgentSpec.Workload.Manifests = manifests(regional)
	f.Make(t)
	f.place("p", "0:"+strings.ReplaceAll(clusters, " ", ","))
	f.fromTemplate(f.strategy("p", "", progressive(1, clusterv1alpha1.RolloutConfig{})))
	return t
}

// region labels a cluster.
func (f *fleet) region(name, region string) {
	f.Helper()
	mc := &clusterv1.ManagedCluster{}
	f.Must(f.Get(context.Background(), client.ObjectKey{Name: f.full(name)}, mc))
	f.Merge(mc, `{"metadata":{"labels":{"region":%q}}}`, region)
}

// regionIn is where the work of a cluster says that it is.
func regionIn(t testing.TB, w *workv1.ManifestWork) string {
	t.Helper()
	if w == nil {
		return ""
	}
	data, _ := objectOf(t, w.Spec.Workload.Manifests[0]).Object["data"].(map[string]any)
	value, _ := data["at"].(string)
	return value
}

// A changed override comes to one cluster after the other, as the rollout says; a changed
// label to its own cluster. A cluster without a value keeps what it has.
func TestAnOverrideOfATemplateIsRolledOut(t *testing.T) {
	f := newFleet(t, "a b")
	f.region("a", "eu")
	f.region("b", "us")
	template := f.overridden("a b", byLabel)
	done := func() {
		t.Helper()
		f.settle()
		f.apply("a", true)
		f.settle()
		f.apply("b", true)
		f.settle()
	}
	must := func(cluster, want string) {
		t.Helper()
		if got := regionIn(t, f.worksIn(cluster)["addon-A-deploy-0"]); got != want {
			t.Errorf("%s has %q, want %q", cluster, got, want)
		}
	}
	done()
	must("a", "eu")
	must("b", "us")
	f.mustCondition("b", "Progressing", completed)

	f.region("b", "asia")
	if n := f.writes.During(func() {
		f.Reconcile(f.stages, keyOf(f.in("a")))
		f.Reconcile(f.stages, keyOf(f.in("b")))
	}); n > 2 {
		t.Errorf("%d writes for a label of one cluster, want its work and what is said of it", n)
	}
	must("b", "asia")
	done()

	f.Merge(
		template,
		`{"metadata":{"annotations":{%q:%q}}}`,
		muster.OverrideAnnotation,
		strings.Replace(
			byLabel,
			`"label":"region"`,
			`"expression":"'in ' + managedCluster.metadata.labels.region"`,
			1,
		),
	)
	f.settle()
	must("a", "in eu")
	must("b", "asia") // its turn has not come
	done()
	must("b", "in asia")

	f.Merge(template, `{"metadata":{"annotations":{%q:%q}}}`, muster.OverrideAnnotation,
		strings.Replace(byLabel, `"region"`, `"zone"`, 1))
	f.settle()
	must("a", "in eu")
	want := `False/ManifestWorkApplyFailed/failed to get manifest from agent interface: the override of the ` +
		`AddOnTemplate "` + f.name + `": the value REGION: the cluster has no value: its ManagedCluster has no ` +
		`label zone`
	f.mustCondition("a", "ManifestApplied", want)
}

// A hub whose feature gate is off does not hand out placeholders.
func TestAnOverrideOnAHubWithoutThem(t *testing.T) {
	f := newFleetWith(t, "a", deploy.Options{})
	f.region("a", "eu")
	f.overridden("a", byLabel)
	f.settle()
	f.mustHaveWorks("a", "")
	if got := f.condition("a", "ManifestApplied"); !strings.Contains(got, "feature gate WorkOverride is off") {
		t.Errorf("the condition is %q", got)
	}
}

// A label is seen where a template has an override, and nowhere else.
func TestLabelsAreWatchedForOverrides(t *testing.T) {
	f := newFleet(t, "a b")
	f.region("a", "eu")
	r := f.runDeploying()
	f.run()
	f.overridden("a", byLabel)
	is := func(want string) func(*workv1.ManifestWork) bool {
		return func(w *workv1.ManifestWork) bool { return regionIn(t, w) == want }
	}
	f.workOf("a", "deployed", is("eu"))
	f.region("a", "us")
	f.workOf("a", "relabelled", is("us"))
	r.take()
	mc := &clusterv1.ManagedCluster{}
	f.Must(f.Get(context.Background(), client.ObjectKey{Name: f.full("a")}, mc))
	f.Merge(mc, `{"metadata":{"labels":{"other":"x"}}}`)
	f.region("a", "asia")
	f.workOf("a", "relabelled again", is("asia"))
	for what, n := range r.take() {
		if strings.Contains(what, "manifestworks") && n > 1 {
			t.Errorf("%s: %d times, want once", what, n)
		}
	}
}
