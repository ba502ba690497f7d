package template_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/template"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

type settingsSpec = v1alpha1.AddOnDeploymentConfigSpec

// worst is a small template and a configuration that would take much of the hub's time
// or memory, and what is said of them.
type worst struct {
	manifests []string // JSON
	config    settingsSpec
	options   []workv1.ManifestConfigOption
	signers   int
	want      string
}

// workloads are Deployments, each in a namespace of its own, with containers.
func workloads(n, containers int) (out []string) {
	one := strings.TrimSuffix(strings.Repeat(`{"name":"container","image":"a/b"},`, containers), ",")
	for i := range n {
		out = append(out, fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment",`+
			`"metadata":{"name":"agent","namespace":"n%d"},"spec":{"template":{"spec":{"containers":[%s]}}}}`, i, one))
	}
	return out
}

func worstInputs() map[string]worst {
	long := strings.Repeat("x", 100_000)
	rules := func(n int, id string) (out []v1alpha1.ContainerResourceRequirements) {
		for range n {
			out = append(out, v1alpha1.ContainerResourceRequirements{ContainerID: id})
		}
		return out
	}
	options := func(n int, name string, paths bool) (out []workv1.ManifestConfigOption) {
		for i := range n {
			// Some patterns differ only in how often * stands in them.
			o := workv1.ManifestConfigOption{ResourceIdentifier: workv1.ResourceIdentifier{
				Group: "apps", Resource: "deployments", Namespace: strings.Repeat("*", 1+i/100),
				Name: strings.NewReplacer("%d", fmt.Sprint(i), "%*", strings.Repeat("*", 1+i%100)).Replace(name),
			}}
			if paths {
				o.FeedbackRules = []workv1.FeedbackRule{{
					Type: workv1.FeedbackTypeJSONPaths, JSONPaths: []workv1.JSONPath{{Name: fmt.Sprint("p", i), Path: ".a"}},
				}}
			}
			out = append(out, o)
		}
		return out
	}
	variable := []v1alpha1.CustomizedVariable{{Name: "A", Value: strings.Repeat("x", 1024)}}
	return map[string]worst{
		"a problem below many levels": {
			manifests: []string{`{"apiVersion":"v1","kind":"A","metadata":{"name":"a"},"spec":` +
				strings.Repeat(`{"a":`, 200) + `{"{{A}}":1,"{{B}}":2}` + strings.Repeat(`}`, 201)},
			want: "two fields get the name",
		},
		"a text below a long name": {
			manifests: []string{`{"` + long + `":[` + strings.Repeat(`"a",`, 100_000) + `"{{"]}`},
			want:      "opens a placeholder that nothing closes",
		},
		"a kind of many placeholders": {
			manifests: []string{`{"apiVersion":"v1","kind":"` + strings.Repeat("{{A}}", 100_000) +
				`","metadata":{"name":"a"}}`},
			config: settingsSpec{CustomizedVariables: variable},
			want:   "the placeholder {{A}} stands in it 100000 times",
		},
		"rules for names of many placeholders": {
			manifests: workloads(1, 1), options: options(1, strings.Repeat("{{A}}", 100_000), false),
			config: settingsSpec{CustomizedVariables: variable},
			want:   "the placeholder {{A}} stands in it 100000 times",
		},
		"an expression with repetitions": {
			manifests: workloads(1, 1), want: "more than 20000 states",
			config: settingsSpec{ResourceRequirements: rules(1, "*:"+strings.Repeat("a{1000}", 30)+":*")},
		},
		"a long expression": {
			manifests: workloads(1, 1), want: "more than 20000 states",
			config: settingsSpec{ResourceRequirements: rules(1, "*:"+strings.Repeat("a|", 100_000)+"b:*")},
		},
		"many expressions": {
			manifests: workloads(1, 1), want: "more than 20000 states",
			config: settingsSpec{ResourceRequirements: rules(20_000, "*:a.b:*")},
		},
		"expressions for many containers": {
			manifests: workloads(1, 20_000), want: "the resourceRequirements would take more than",
			config: settingsSpec{ResourceRequirements: rules(1000, "deployments:a.*t:d.*")},
		},
		"names for many containers": {
			manifests: workloads(1, 20_000), want: "the resourceRequirements would take more than",
			config: settingsSpec{ResourceRequirements: rules(20_000, "deployments:a:b")},
		},
		"a proxy for many containers": {
			manifests: workloads(1, 100), want: "the variables of the proxy",
			config: settingsSpec{ProxyConfig: v1alpha1.ProxyConfig{HTTPProxy: long}},
		},
		"the proxy's certificates for many namespaces": {
			manifests: workloads(100, 1), want: "the proxy's certificates",
			config: settingsSpec{ProxyConfig: v1alpha1.ProxyConfig{HTTPProxy: "p", CABundle: []byte(long)}},
		},
		"a long mirror": {
			manifests: workloads(1, 100), want: "the registries",
			config: settingsSpec{Registries: []v1alpha1.ImageMirror{{Source: "a", Mirror: long}}},
		},
		"many mirrors": {
			manifests: workloads(1, 2000), want: "the registries",
			config: settingsSpec{Registries: make([]v1alpha1.ImageMirror, 20_000)},
		},
		"nodes for many workloads": {
			manifests: workloads(100, 1), want: "the nodePlacement",
			config: settingsSpec{NodePlacement: &v1alpha1.NodePlacement{NodeSelector: map[string]string{"a": long}}},
		},
		"volumes of many signers": {
			manifests: workloads(1, 10), signers: 5000, want: "the volumes of the template's registrations",
		},
		"rules for many workloads": {
			manifests: workloads(5000, 0), options: options(5000, "a*%d", false), want: "the template's manifestConfigs",
		},
		"feedback of many workloads": {
			manifests: workloads(1000, 0), options: options(1000, "%*", true), want: "the template's manifestConfigs",
		},
		"feedback of one workload": {
			manifests: workloads(1, 0), options: options(4000, "%*", true), want: "the template's manifestConfigs",
		},
	}
}

// What would take the hub's time or memory for an add-on of one cluster is refused, and
// in words. Without limits most of these would not end within minutes.
func TestWorstInputs(t *testing.T) {
	for name, x := range worstInputs() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := templateOf(x.manifests...)
			source.Spec.AgentSpec.ManifestConfigs = x.options
			for i := range x.signers {
				source.Spec.Registration = append(source.Spec.Registration, v1alpha1.RegistrationSpec{
					Type: v1alpha1.RegistrationTypeCustomSigner,
					CustomSigner: &v1alpha1.CustomSignerRegistrationConfig{
						SignerName: fmt.Sprintf("example.org/signer-%d", i), SigningCA: v1alpha1.SigningCARef{Name: "ca"},
					},
				})
			}
			config := &v1alpha1.AddOnDeploymentConfig{
				ObjectMeta: metav1.ObjectMeta{Namespace: "settings", Name: "search"}, Spec: x.config,
			}
			config.Spec.AgentInstallNamespace = new(string)
			for what, o := range map[string]any{"the template": source, "the configuration": config} {
				if data, err := json.Marshal(o); err != nil || len(data) > 3<<19 {
					t.Fatalf("%s has %d bytes, more than the hub stores: %v", what, len(data), err)
				}
			}
			in := input(source, config)
			_, err := template.Render(in)
			if err == nil || !strings.Contains(err.Error(), x.want) {
				t.Errorf("got %.300v, want %s", err, x.want)
			}
			if err != nil && len(err.Error()) > 4000 {
				t.Errorf("the message has %d bytes", len(err.Error()))
			}
			template.InstallNamespace(source, config, "paris")
		})
	}
}
