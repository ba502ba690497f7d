package addon_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

const (
	applied    = "True/AddonManifestApplied/manifests of addon are applied successfully"
	configMap  = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":"x"},"data":{"cluster":"{{CLUSTER_NAME}}"}}`
	preDelete  = `{"apiVersion":"batch/v1","kind":"Job","metadata":{"namespace":"default","name":"clean","annotations":{"addon.open-cluster-management.io/addon-pre-delete":""}},"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}`
	deployment = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"default","name":"agent"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"agent","image":"i"}]}}}}`
)

// manifests are those of a template.
func manifests(all ...string) (out []workv1.Manifest) {
	for _, m := range all {
		out = append(out, workv1.Manifest{RawExtension: runtime.RawExtension{Raw: []byte(m)}})
	}
	return out
}

// templated makes the add-on from a template with manifests, and in clusters.
func (f *fleet) templated(clusters string, all ...string) *addonv1alpha1.AddOnTemplate {
	f.Helper()
	t := &addonv1alpha1.AddOnTemplate{ObjectMeta: metav1.ObjectMeta{Name: f.name}}
	t.Spec.AddonName = f.name
	t.Spec.AgentSpec.Workload.Manifests = manifests(all...)
	f.Make(t)
	f.place("p", "0:"+strings.ReplaceAll(clusters, " ", ","))
	f.fromTemplate(f.strategy("p", "", progressive(1, clusterv1alpha1.RolloutConfig{})))
	return t
}

// settle has every controller, that of deployments too, look at everything until none
// writes any more.
func (f *fleet) settle() {
	f.Helper()
	for range 10 {
		n := f.writes.During(func() {
			if f.install != nil {
				f.Reconcile(f.install, types.NamespacedName{Name: f.name})
			}
			f.Reconcile(f.configuration, types.NamespacedName{Name: f.name})
			for _, a := range f.all() {
				f.Reconcile(f.stages, client.ObjectKeyFromObject(&a))
			}
		})
		if n == 0 {
			return
		}
	}
	f.Fatal("the controllers write again and again")
}

// The agent of muster, which is there, has one write less for such a work.
func TestWorksForAgentsOfMusterHaveTheirFinalizer(t *testing.T) {
	f := newFleet(t, "a b")
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: f.full("a")}}
	f.Merge(mc, `{"metadata":{"annotations":{%q:"true"}}}`, muster.WorkPreviewsAnnotation)
	f.Report(mc, `{"status":{"conditions":[{"type":%q,"status":"True","reason":"Test","message":"",
		"lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, cluster.ConditionAvailable)
	f.templated("a b", configMap)
	for _, where := range []string{"a", "b"} {
		f.settle()
		w := f.mustHaveWorks(where, "addon-A-deploy-0")["addon-A-deploy-0"]
		if held := slices.Equal(w.Finalizers, []string{work.ManifestWorkFinalizer}); held != (where == "a") {
			t.Errorf("the work in %s has the finalizers %q", where, w.Finalizers)
		}
		f.apply(where, true)
	}
}

// worksIn are the works in the namespace of a cluster, by their names.
func (f *fleet) worksIn(cluster string) map[string]*workv1.ManifestWork {
	f.Helper()
	list := &workv1.ManifestWorkList{}
	f.Must(f.List(context.Background(), list, client.InNamespace(f.full(cluster))))
	out := map[string]*workv1.ManifestWork{}
	for i := range list.Items {
		out[strings.ReplaceAll(list.Items[i].Name, f.name, "A")] = &list.Items[i]
	}
	return out
}

func (f *fleet) mustHaveWorks(cluster, want string) map[string]*workv1.ManifestWork {
	f.Helper()
	all := f.worksIn(cluster)
	var names []string
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	if got := strings.Join(names, " "); got != want {
		f.Errorf("the works in %s are %q, want %q", cluster, got, want)
	}
	return all
}

// apply has the agents of clusters apply all of their works, with success or without.
func (f *fleet) apply(clusters string, success bool) {
	f.Helper()
	for name := range strings.FieldsSeq(clusters) {
		for _, w := range f.worksIn(name) {
			f.done(w, success)
		}
	}
}

func objectOf(t testing.TB, m workv1.Manifest) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := json.Unmarshal(m.Raw, o); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestATemplateIsDeployed(t *testing.T) {
	f := newFleet(t, "a b")
	template := f.templated("a b", configMap, deployment)
	f.settle()
	all := f.mustHaveWorks("a", "addon-A-deploy-0")
	f.mustHaveWorks("b", "") // its turn has not come
	w := all["addon-A-deploy-0"]
	if got := objectOf(t, w.Spec.Workload.Manifests[0]).Object["data"].(map[string]any)["cluster"]; got != f.full("a") {
		t.Errorf("the cluster's name in the manifest is %v", got)
	}
	if got := f.in("a").Status.HealthCheck.Mode; got != "Customized" {
		t.Errorf("the health is checked by %q", got)
	}
	f.mustCondition("a", "ManifestApplied", "")

	f.apply("a", true)
	f.settle()
	f.mustCondition("a", "ManifestApplied", applied)
	f.apply("b", true)
	f.settle()
	f.mustCondition("b", "ManifestApplied", applied)
	f.mustCondition("b", "Progressing", completed)

	// A change comes to one cluster after the other, and the others keep what they have.
	before := f.worksIn("b")["addon-A-deploy-0"].ResourceVersion
	f.Must(f.Get(context.Background(), client.ObjectKeyFromObject(template), template))
	template.Spec.AgentSpec.Workload.Manifests = manifests(strings.Replace(configMap, `"x"`, `"y"`, 1))
	f.Must(f.Update(context.Background(), template))
	f.settle()
	if got := f.worksIn("a")["addon-A-deploy-0"].Spec.Workload.Manifests; len(got) != 1 || objectOf(t, got[0]).GetName() != "y" {
		t.Errorf("the work has %s", got)
	}
	if got := f.worksIn("b")["addon-A-deploy-0"].ResourceVersion; got != before {
		t.Error("the work of a cluster whose turn has not come is written")
	}
	f.apply("a", false)
	f.settle()
	f.mustCondition("a", "ManifestApplied", "False/AddonManifestAppliedFailed/failed to apply the manifests of addon: the work addon-"+f.name+"-deploy-0: said the agent")
	f.apply("a", true)
	f.settle()
	f.apply("b", true)
	f.settle()
	f.mustCondition("b", "Progressing", completed)
	if f.worksIn("b")["addon-A-deploy-0"].ResourceVersion == before {
		t.Error("the change does not come to the second cluster")
	}
}

// Nothing is deployed before the hub has registered the add-on, where it is managed
// by another one, and in a cluster that goes.
func TestWhatIsNotDeployed(t *testing.T) {
	for name, prepare := range map[string]func(f *fleet){
		"not registered": func(f *fleet) { f.stages = f.deploying },
		"self-managed": func(f *fleet) {
			f.pass()
			f.Reconcile(f.registration, keyOf(f.in("a")))
			f.Merge(f.definition(), `{"metadata":{"annotations":{"addon.open-cluster-management.io/lifecycle":"self"}}}`)
		},
		"a cluster that goes": func(f *fleet) {
			mc := &clusterv1.ManagedCluster{}
			f.Must(f.Get(context.Background(), types.NamespacedName{Name: f.full("a")}, mc))
			f.pass()
			f.Merge(mc, `{"metadata":{"finalizers":["example.org/x"]}}`)
			f.Must(f.Delete(context.Background(), mc))
			f.install = nil // it would take the add-on away
		},
		"another manager's": func(f *fleet) {
			f.pass()
			f.Merge(f.definition(), `{"spec":{"supportedConfigs":null}}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, "a")
			f.templated("a", configMap)
			prepare(f)
			f.settle()
			f.mustHaveWorks("a", "")
			f.mustCondition("a", "ManifestApplied", "")
		})
	}
}

func TestWhatIsSaidWhenATemplateCannotBeDeployed(t *testing.T) {
	f := newFleet(t, "a")
	template := f.templated("a", configMap)
	f.settle()
	f.apply("a", true)
	f.settle()
	large := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":"large"},"data":{"x":%q}}`, strings.Repeat("x", 520000))
	for _, x := range []struct{ manifest, want string }{
		{large, "failed to build manifestwork: the manifest ConfigMap default/large has 520"},
		{`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":"{{NO_NAME}}"}}`, "failed to get manifest from agent interface: "},
	} {
		f.Must(f.Get(context.Background(), client.ObjectKeyFromObject(template), template))
		template.Spec.AgentSpec.Workload.Manifests = manifests(x.manifest)
		f.Must(f.Update(context.Background(), template))
		f.settle()
		if got := f.condition("a", "ManifestApplied"); !strings.HasPrefix(got, "False/ManifestWorkApplyFailed/"+x.want) {
			t.Errorf("the condition is %q, want %q", got, x.want)
		}
		select {
		case event := <-f.events.Events:
			if !strings.HasPrefix(event, "Warning AddOnDeployFailed "+x.want) {
				t.Errorf("the event is %q", event)
			}
		default:
			t.Error("there is no event")
		}
		if len(f.events.Events) > 0 {
			t.Errorf("there is one more event: %s", <-f.events.Events)
		}
		f.mustHaveWorks("a", "addon-A-deploy-0")
	}
	template.Spec.AgentSpec.Workload.Manifests = manifests(configMap)
	f.Must(f.Update(context.Background(), template))
	f.settle()
	f.mustCondition("a", "ManifestApplied", applied)
}

// When the template has nothing to deploy any more, the works go.
func TestATemplateWithoutManifests(t *testing.T) {
	f := newFleet(t, "a")
	template := f.templated("a", configMap)
	f.settle()
	f.apply("a", true)
	f.settle()
	f.Must(f.Get(context.Background(), client.ObjectKeyFromObject(template), template))
	template.Spec.AgentSpec.Workload.Manifests = nil
	f.Must(f.Update(context.Background(), template))
	f.settle()
	f.mustHaveWorks("a", "")
	f.mustCondition("a", "ManifestApplied", "True/AddonManifestApplied/no manifest need to apply")
	f.mustCondition("a", "Progressing", completed)
}

// What others add to a work stays; what they change is put back.
func TestWorksThatOthersChange(t *testing.T) {
	f := newFleet(t, "a")
	f.templated("a", configMap)
	f.settle()
	w := f.worksIn("a")["addon-A-deploy-0"]
	f.Merge(w, `{"metadata":{"labels":{"mine":"x"},"annotations":{"mine":"x","open-cluster-management.io/config-spec-hash":"x"}},"spec":{"manifestConfigs":[{"resourceIdentifier":{"resource":"configmaps","name":"x"},"updateStrategy":{"type":"CreateOnly"}}],"deleteOption":{"propagationPolicy":"SelectivelyOrphan","selectivelyOrphans":{"orphaningRules":[{"resource":"configmaps","name":"x","namespace":"default"}]}}}}`)
	f.settle()
	got := f.worksIn("a")["addon-A-deploy-0"]
	if got.Labels["mine"] != "x" || got.Annotations["mine"] != "x" || got.Annotations["open-cluster-management.io/config-spec-hash"] == "x" || got.Spec.ManifestConfigs != nil || got.Spec.DeleteOption != nil {
		t.Errorf("the work is %+v", got)
	}
	f.Merge(got, `{"metadata":{"labels":{"open-cluster-management.io/addon-name":null},"ownerReferences":null}}`)
	f.settleOnce()
	if got := f.condition("a", "ManifestApplied"); !strings.Contains(got, "there is a work addon-"+f.name+"-deploy-0 already that is not the add-on's, as it lacks the label open-cluster-management.io/addon-name: "+f.name) {
		t.Errorf("the condition is %q", got)
	}
	f.Merge(got, `{"metadata":{"labels":{"open-cluster-management.io/addon-name":%q}}}`, f.name)
	f.settle()
	f.mustCondition("a", "ManifestApplied", "")
	if got = f.worksIn("a")["addon-A-deploy-0"]; len(got.OwnerReferences) != 1 {
		t.Errorf("the work is owned by %v", got.OwnerReferences)
	}
	f.Merge(got, `{"metadata":{"labels":{"open-cluster-management.io/addon-name":null}}}`)
	f.settle()
	if got = f.worksIn("a")["addon-A-deploy-0"]; got.Labels["open-cluster-management.io/addon-name"] != f.name {
		t.Errorf("the labels are %v", got.Labels)
	}
}

// settleOnce has the works looked at once; an error is fine.
func (f *fleet) settleOnce() {
	f.Helper()
	_, _ = f.deploying.Reconcile(context.Background(), reconcile.Request{NamespacedName: keyOf(f.in("a"))})
}

// What the stages say of an add-on is one write beside its work, and one when the work is
// done, however many of them have something to say.
func TestTheStagesSayAllInOneWrite(t *testing.T) {
	f := newFleet(t, "a")
	f.templated("a", configMap)
	f.Reconcile(f.install, types.NamespacedName{Name: f.name})
	f.Reconcile(f.configuration, types.NamespacedName{Name: f.name})
	look := func() int64 { return f.writes.During(func() { f.Reconcile(f.stages, keyOf(f.in("a"))) }) }
	if n := look(); n != 2 {
		t.Errorf("%d writes, want the work and the status", n)
	}
	f.mustHaveWorks("a", "addon-A-deploy-0")
	if got := f.condition("a", "RegistrationApplied"); !strings.HasPrefix(got, "True/") {
		t.Errorf("RegistrationApplied is %q", got)
	}
	f.mustCondition("a", "Progressing",
		"False/WaitingForManifestApplied/Waiting for ManagedClusterAddOn ManifestApplied condition")
	if n := look(); n != 0 {
		t.Errorf("%d writes although nothing changed", n)
	}
	f.apply("a", true)
	if n := look(); n != 1 {
		t.Errorf("%d writes when the work is done, want the status", n)
	}
	f.mustCondition("a", "ManifestApplied", applied)
	f.mustCondition("a", "Progressing", completed)
	if n := look(); n != 0 {
		t.Errorf("%d writes although nothing changed", n)
	}
}
