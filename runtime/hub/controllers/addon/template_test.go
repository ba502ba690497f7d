package addon_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	addonv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1beta1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	addoncontrollers "github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/addon/configuration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/selection"
)

// The hashes of deployment configurations with one variable, which upstream's tests
// name.
const (
	hashOfTest  = "ea4e6089e8b2f584c1cd8b86e16a15df3186b30744f433ede7436091c93a4cc7"
	hashOfTest1 = "b746cc98936955dd2168640f0011a14f2a74be306c747bc8ba829328cc772690"
)

// deploymentConfig makes a deployment configuration with one variable, as upstream's
// Go types write it: muster's own leave the empty proxyConfig out.
func (f *fleet) deploymentConfig(name, value string) *unstructured.Unstructured {
	f.Helper()
	c := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"customizedVariables": []any{map[string]any{"name": value, "value": value}}, "proxyConfig": map[string]any{},
	}}}
	c.SetGroupVersionKind(addonv1beta1.GroupVersion.WithKind("AddOnDeploymentConfig"))
	c.SetNamespace(f.name)
	c.SetName(name)
	f.Make(c)
	return c
}

// deploymentConfigs are references to deployment configurations.
func (f *fleet) deploymentConfigs(names ...string) (out []addonv1alpha1.AddOnConfig) {
	for _, name := range names {
		out = append(out, addonv1alpha1.AddOnConfig{
			ConfigGroupResource: addonv1alpha1.ConfigGroupResource{Group: "addon.open-cluster-management.io", Resource: "addondeploymentconfigs"},
			ConfigReferent:      addonv1alpha1.ConfigReferent{Namespace: f.name, Name: name},
		})
	}
	return out
}

// fromTemplate makes the add-on from a template that does not exist.
func (f *fleet) fromTemplate(placement addonv1alpha1.PlacementStrategy) {
	f.Helper()
	a := &addonv1alpha1.ClusterManagementAddOn{ObjectMeta: metav1.ObjectMeta{Name: f.name}}
	a.Spec.SupportedConfigs = []addonv1alpha1.ConfigMeta{
		{ConfigGroupResource: addonv1alpha1.ConfigGroupResource{Group: "addon.open-cluster-management.io", Resource: "addontemplates"}, DefaultConfig: &addonv1alpha1.ConfigReferent{Name: f.name}},
		{ConfigGroupResource: f.deploymentConfigs("x")[0].ConfigGroupResource},
	}
	a.Spec.InstallStrategy = addonv1alpha1.InstallStrategy{Type: "Placements", Placements: []addonv1alpha1.PlacementStrategy{placement}}
	f.Make(a)
}

func (f *fleet) template(name string) *addonv1beta1.AddOnTemplate {
	f.Helper()
	t := &addonv1beta1.AddOnTemplate{ObjectMeta: metav1.ObjectMeta{Name: name}}
	t.Spec.AddonName = name
	f.Make(t)
	return t
}

// short are the references with hashes cut short, and the generations that were
// observed.
func (f *fleet) short(cluster string) string {
	f.Helper()
	var out []string
	for _, r := range f.in(cluster).Status.ConfigReferences {
		out = append(out, fmt.Sprintf("%s=%.4s@%d", r.DesiredConfig.Name, r.DesiredConfig.SpecHash, r.LastObservedGeneration))
	}
	return strings.Join(out, " ")
}

func (f *fleet) mustBeShort(cluster, want string) {
	f.Helper()
	if got := strings.ReplaceAll(f.short(cluster), f.name+"=", "template="); got != want {
		f.Errorf("the configurations in %s are %q, want %q", cluster, got, want)
	}
}

// The hub itself hashes the configurations of an add-on from a template.
func TestConfigurationsOfATemplateAddOnAreHashed(t *testing.T) {
	f := newFleet(t, "a b")
	f.place("p", "0:a,b")
	config := f.deploymentConfig("one", "test")
	placement := f.strategy("p", "", progressive(1, clusterv1alpha1.RolloutConfig{}))
	placement.Configs = f.deploymentConfigs("one")
	f.fromTemplate(placement)
	f.pass()
	f.mustBeShort("a", "one="+hashOfTest[:4]+"@1 template=@0")
	if got := f.definition().Status; got.DefaultConfigReferences[0].DesiredConfig.SpecHash != "" || got.InstallProgressions[0].ConfigReferences[0].DesiredConfig.SpecHash != hashOfTest {
		t.Errorf("the status is %+v", got)
	}
	if got, err := json.Marshal(f.in("b").Status.SupportedConfigs); err != nil ||
		string(got) != `[{"group":"addon.open-cluster-management.io","resource":"addondeploymentconfigs"},{"group":"addon.open-cluster-management.io","resource":"addontemplates"}]` {
		t.Errorf("the supported kinds are %s (%v)", got, err)
	}

	template := f.template(f.name)
	f.pass()
	got := f.definition().Status.DefaultConfigReferences[0].DesiredConfig.SpecHash
	if len(got) != 64 {
		t.Fatalf("the hash of the template is %q", got)
	}
	f.mustBeShort("a", "one="+hashOfTest[:4]+"@1 template="+got[:4]+"@1")
	f.deploy("a", true)
	f.pass()
	f.mustBeShort("b", "one="+hashOfTest[:4]+"@1 template="+got[:4]+"@1")

	// A new content comes to one cluster after the other; what generation there is
	// is known to all at once.
	f.Merge(config, `{"spec":{"customizedVariables":[{"name":"test1","value":"test1"}]}}`)
	f.pass()
	f.mustBeShort("a", "one="+hashOfTest1[:4]+"@2 template="+got[:4]+"@1")
	f.mustBeShort("b", "one="+hashOfTest[:4]+"@2 template="+got[:4]+"@1")
	f.mustCondition("b", "Configured", notConfigured)

	f.Remove(template)
	f.pass()
	if got := f.definition().Status.DefaultConfigReferences[0].DesiredConfig.SpecHash; got != "" {
		t.Errorf("the hash of a template that is gone is %q", got)
	}
	if n := f.pass(); n != 0 {
		t.Errorf("%d writes although nothing changed", n)
	}
}

// What a cluster has of its own waits for no other cluster, once it is there.
func TestAClustersOwnDeploymentConfig(t *testing.T) {
	f := newFleet(t, "a b")
	f.place("p", "0:a,b")
	f.template(f.name)
	placement := f.strategy("p", "", progressive(1, clusterv1alpha1.RolloutConfig{}))
	f.fromTemplate(placement)
	f.pass()
	f.deploy("a", true)
	f.pass()
	f.deploy("b", true)
	f.pass()
	own := f.deploymentConfig("own", "test")
	b := f.in("b")
	b.Spec.Configs = append(f.deploymentConfigs("own"), f.settings("foreign")...)
	f.Must(f.Update(context.Background(), b))
	f.pass()
	mustBe := func(hash string, generation int) {
		t.Helper()
		template := f.in("b").Status.ConfigReferences[1]
		f.mustBeShort("b", fmt.Sprintf("own=%.4s@%d template=%.4s@1 foreign=@0", hash, generation, template.DesiredConfig.SpecHash))
	}
	mustBe(hashOfTest, 1)
	f.mustCondition("b", "Progressing", "False/ConfigurationUnsupported/Configuration with gvr example.org/settings is not supported for this addon")
	f.Merge(own, `{"spec":{"customizedVariables":[{"name":"test1","value":"test1"}]}}`)
	f.pass()
	mustBe(hashOfTest1, 2)
	f.Remove(own)
	f.pass()
	mustBe(hashOfTest1, 2) // what it was last
}

// A manager of an add-on hashes; the hub leaves its hashes alone, even those of kinds
// that it could hash itself.
func TestHashesOfAnAddOnsManagerStay(t *testing.T) {
	f := newFleet(t, "a")
	f.place("p", "0:a")
	f.deploymentConfig("one", "test")
	placement := f.strategy("p", "")
	placement.Configs = f.deploymentConfigs("one")
	f.define("", placement)
	f.pass()
	f.mustHave(map[string]string{"a": "one"})
	f.hash(map[string]string{"one": "by-its-manager"})
	f.pass()
	f.mustHave(map[string]string{"a": "one=by-its-manager"})
	f.hash(map[string]string{"one": ""})
	f.pass()
	f.mustHave(map[string]string{"a": "one"})
}

// What a pass asks for does not grow with the fleet, beside the clusters themselves.
func TestAPassListsNothingForEachCluster(t *testing.T) {
	lists := map[string]int{}
	for _, clusters := range []string{"a", "a b c d"} {
		f := newFleet(t, clusters)
		f.place("p", "0:"+strings.ReplaceAll(clusters, " ", ","))
		f.template(f.name)
		f.fromTemplate(f.strategy("p", ""))
		f.pass()
		real, ok := f.Client.(client.WithWatch)
		if !ok {
			var err error
			real, err = client.NewWithWatch(env.Config("muster-test"), client.Options{Scheme: f.Scheme(), Mapper: f.RESTMapper()})
			f.Must(err)
		}
		counting := interceptor.NewClient(real, interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				lists[clusters]++
				return c.List(ctx, list, opts...)
			},
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if _, perCluster := o.(*addonv1alpha1.ManagedClusterAddOn); perCluster {
					t.Errorf("the add-on of the cluster %s is read by itself", key.Namespace)
				}
				return c.Get(ctx, key, o, opts...)
			},
		})
		f.Reconcile(addoncontrollers.NewInstaller(counting, selection.BoundSets, nil, nil), keyOf(f.definition()))
		f.Reconcile(configuration.NewController(counting, counting, f.events, f.clock, selection.BoundSets), keyOf(f.definition()))
	}
	if lists["a"] == 0 || lists["a"] != lists["a b c d"] {
		t.Errorf("a pass lists %d times for one cluster, %d times for four", lists["a"], lists["a b c d"])
	}
}
