package hostile

import (
	"context"
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testfleet"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// costlyTemplate is a template with a configuration that the API takes, and what is said
// of them when they are refused.
type costlyTemplate struct {
	manifests []string
	options   []workv1.ManifestConfigOption
	config    addonv1alpha1.AddOnDeploymentConfigSpec
	override  string
	words     string
}

// costlyDeployments are Deployments, each with containers.
func costlyDeployments(n, containers int) (out []string) {
	one := strings.TrimSuffix(strings.Repeat(`{"name":"container","image":"a/b"},`, containers), ",")
	for i := range n {
		out = append(out, fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment",`+
			`"metadata":{"name":"agent-%d","namespace":"default"},"spec":{"template":{"spec":{"containers":[%s]}}}}`, i, one))
	}
	return out
}

func costlyTemplates() map[string]costlyTemplate {
	type spec = addonv1alpha1.AddOnDeploymentConfigSpec
	requirements := func(n int, id string) (out []addonv1alpha1.ContainerResourceRequirements) {
		for i := range n { // each another one, as the API asks
			out = append(out, addonv1alpha1.ContainerResourceRequirements{ContainerID: id + fmt.Sprint(i)})
		}
		return out
	}
	var variables []addonv1alpha1.CustomizedVariable
	for i := range 1000 {
		variables = append(variables, addonv1alpha1.CustomizedVariable{
			Name: fmt.Sprint("V", i), Value: strings.Repeat("{{V0}}", 170),
		})
	}
	var feedback []workv1.ManifestConfigOption
	for i := range 1000 {
		feedback = append(feedback, workv1.ManifestConfigOption{
			ResourceIdentifier: workv1.ResourceIdentifier{
				Group: "apps", Resource: "deployments",
				Name: strings.Repeat("*", 1+i%100), Namespace: strings.Repeat("*", 1+i/100),
			},
			FeedbackRules: []workv1.FeedbackRule{{
				Type: workv1.FeedbackTypeJSONPaths, JSONPaths: []workv1.JSONPath{{Name: fmt.Sprint("p", i), Path: ".a"}},
			}},
		})
	}
	placeholders := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default"},` +
		`"data":{"x":"` + strings.Repeat("{{V1}}{{V2}}{{V3}}", 20_000) + `"}}`
	return map[string]costlyTemplate{
		"levels": {
			manifests: []string{`{"apiVersion":"example.org/v1","kind":"A","metadata":{"name":"a"},"spec":` +
				strings.Repeat(`{"a":`, 60) + `{"{{A}}":1,"{{B}}":2}` + strings.Repeat(`}`, 61)},
			words: "two fields get the name",
		},
		"placeholders": {
			manifests: []string{placeholders}, config: spec{CustomizedVariables: variables},
			words: "together the values may have",
		},
		"states": {
			manifests: costlyDeployments(1, 1), words: "states with their repetitions written out",
			config: spec{ResourceRequirements: requirements(50, "*:"+strings.Repeat("a{1000}", 1000)+":a")},
		},
		"matches": {
			manifests: costlyDeployments(1, 20_000), words: "the resourceRequirements would take more than",
			config: spec{ResourceRequirements: requirements(1000, "deployments:a.*t:d.*")},
		},
		"mirrors": {
			manifests: costlyDeployments(1, 20_000), words: "the registries would make the add-on more than",
			config: spec{Registries: []addonv1alpha1.ImageMirror{{Source: "a", Mirror: strings.Repeat("m", 500_000)}}},
		},
		"proxies": {
			manifests: costlyDeployments(500, 10), words: "the variables of the proxy",
			config: spec{ProxyConfig: addonv1alpha1.ProxyConfig{HTTPProxy: strings.Repeat("p", 500_000)}},
		},
		"overrides": {
			manifests: costlyDeployments(400, 1), words: "the patches go through more than",
			// The first makes them larger than they are when they are counted before.
			override: `{"overrides":[{"manifests":{"kind":"Deployment"},"type":"Merge","patch":{"spec":{"a":"` +
				strings.Repeat("a", 4000) + `"}}}` + strings.Repeat(
				`,{"manifests":{"kind":"Deployment"},"type":"Merge","patch":{"spec":{"b":1}}}`, 6) + `]}`,
		},
		"feedback": {manifests: costlyDeployments(2000, 0), options: feedback, words: "the template's manifestConfigs"},
	}
}

// Authors of templates and of configurations try to take the hub's time and memory, in
// several clusters at a time. Other authors' add-ons are deployed meanwhile.
func TestAddOnTemplatesThatCostTooMuch(t *testing.T) {
	ctx, c := context.Background(), hub.admin(t)
	const settings = "costly-settings"
	author := testfleet.Client(t, hub.Tenant(t, settings, "author", rbacv1.PolicyRule{
		APIGroups: []string{addon.GroupName}, Resources: []string{"addondeploymentconfigs"}, Verbs: []string{"*"},
	}))
	clusters := []string{"costly-a", "costly-b", "costly-c"}
	for _, name := range clusters {
		hub.Joined(t, name, "a")
	}
	all := costlyTemplates()
	for name, x := range all {
		hub.costlyAddOn(t, "costly-"+name, x)
		config := &addonv1alpha1.AddOnDeploymentConfig{
			ObjectMeta: metav1.ObjectMeta{Namespace: settings, Name: name}, Spec: x.config,
		}
		config.Spec.AgentInstallNamespace = new(string)
		testkit.Must(t, author.Create(ctx, config))
		for _, cluster := range clusters {
			a := &addonv1alpha1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: "costly-" + name}}
			a.Spec.Configs = []addonv1alpha1.AddOnConfig{{
				ConfigGroupResource: configured(addon.DeploymentConfigResource),
				ConfigReferent:      addonv1alpha1.ConfigReferent{Namespace: settings, Name: name},
			}}
			testkit.Must(t, c.Create(ctx, a))
		}
	}
	hub.templateAddOn(t, "beside-costly", "default")
	for _, cluster := range clusters {
		hub.install(t, cluster, "beside-costly", registration.ConditionRegistrationApplied)
		testkit.Eventually(t, func() error {
			deployed := client.ObjectKey{Namespace: cluster, Name: addon.DeployWorkName("beside-costly") + "-0"}
			return c.Get(ctx, deployed, &workv1.ManifestWork{})
		})
	}
	harmless(t, "costly templates hold up another add-on", nil)
	for name, x := range all {
		for _, cluster := range clusters {
			a := &addonv1alpha1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: "costly-" + name}}
			testkit.Eventually(t, func() error {
				if err := c.Get(ctx, client.ObjectKeyFromObject(a), a); err != nil {
					return err
				}
				said := meta.FindStatusCondition(a.Status.Conditions, addon.ConditionManifestApplied)
				if said == nil || said.Status != metav1.ConditionFalse || !strings.Contains(said.Message, x.words) {
					return fmt.Errorf("the add-on %s of %s does not say %q: %.2000v",
						a.Name, cluster, x.words, a.Status.Conditions)
				}
				return nil
			})
		}
		harmless(t, "a template that costs too much by its "+name, nil)
	}
}

// configured is a resource of configurations.
func configured(resource string) addonv1alpha1.ConfigGroupResource {
	return addonv1alpha1.ConfigGroupResource{Group: addon.GroupName, Resource: resource}
}

// costlyAddOn defines an add-on, which users install by hand with configurations.
func (w *world) costlyAddOn(t testing.TB, name string, x costlyTemplate) {
	t.Helper()
	template := &addonv1alpha1.AddOnTemplate{ObjectMeta: metav1.ObjectMeta{Name: name}}
	template.Spec.AddonName = name
	if x.override != "" {
		template.Annotations = map[string]string{muster.OverrideAnnotation: x.override}
	}
	for _, m := range x.manifests {
		template.Spec.AgentSpec.Workload.Manifests = append(template.Spec.AgentSpec.Workload.Manifests,
			workv1.Manifest{RawExtension: runtime.RawExtension{Raw: []byte(m)}})
	}
	template.Spec.AgentSpec.ManifestConfigs = x.options
	a := &addonv1alpha1.ClusterManagementAddOn{ObjectMeta: metav1.ObjectMeta{Name: name}}
	a.Spec.SupportedConfigs = []addonv1alpha1.ConfigMeta{
		{
			ConfigGroupResource: configured(addon.TemplateResource),
			DefaultConfig:       &addonv1alpha1.ConfigReferent{Name: name},
		},
		{ConfigGroupResource: configured(addon.DeploymentConfigResource)},
	}
	for _, o := range []client.Object{template, a} {
		testkit.Must(t, w.admin(t).Create(context.Background(), o))
		t.Cleanup(func() { _ = w.admin(t).Delete(context.Background(), o) })
	}
}
