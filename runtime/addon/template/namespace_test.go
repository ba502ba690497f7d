package template_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/template"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// templateOf is a template with manifests, each as JSON.
func templateOf(manifests ...string) *v1alpha1.AddOnTemplate {
	t := &v1alpha1.AddOnTemplate{ObjectMeta: metav1.ObjectMeta{Name: "search-v1"}}
	t.Spec.AddonName = "search"
	for _, m := range manifests {
		t.Spec.AgentSpec.Workload.Manifests = append(t.Spec.AgentSpec.Workload.Manifests,
			workv1.Manifest{RawExtension: runtime.RawExtension{Raw: []byte(m)}})
	}
	return t
}

// configOf is a deployment configuration that says in which namespace an agent is.
func configOf(namespace *string, variables ...v1alpha1.CustomizedVariable) *v1alpha1.AddOnDeploymentConfig {
	c := &v1alpha1.AddOnDeploymentConfig{ObjectMeta: metav1.ObjectMeta{Namespace: "settings", Name: "search"}}
	c.Spec.AgentInstallNamespace, c.Spec.CustomizedVariables = namespace, variables
	return c
}

// input is that of the add-on search in the cluster paris.
func input(t *v1alpha1.AddOnTemplate, c *v1alpha1.AddOnDeploymentConfig) template.Input {
	return template.Input{
		Cluster:  &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "paris"}},
		AddOn:    &v1alpha1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: "paris", Name: "search"}},
		Template: t, Config: c,
	}
}

func TestInstallNamespace(t *testing.T) {
	workload := func(apiVersion, kind, namespace string) string {
		return `{"apiVersion":"` + apiVersion + `","kind":"` + kind + `","metadata":{"name":"` + kind + `","namespace":"` + namespace + `"}}`
	}
	deployment := func(namespace string) string { return workload("apps/v1", "Deployment", namespace) }
	daemonSet := func(namespace string) string { return workload("apps/v1", "DaemonSet", namespace) }
	const fallback = "open-cluster-management-agent-addon"
	empty, set := "", "agents"
	variable := v1alpha1.CustomizedVariable{Name: "WHERE", Value: "there"}
	for name, x := range map[string]struct {
		manifests []string
		config    *v1alpha1.AddOnDeploymentConfig
		want      string
	}{
		"nothing at all":                              {nil, nil, fallback},
		"a Deployment":                                {[]string{deployment("one")}, nil, "one"},
		"the first of two":                            {[]string{deployment("one"), deployment("two")}, nil, "one"},
		"the first with a namespace":                  {[]string{`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"x"}}`, deployment("two")}, nil, "two"},
		"a DaemonSet":                                 {[]string{daemonSet("three")}, nil, "three"},
		"a Deployment behind a DaemonSet":             {[]string{daemonSet("three"), deployment("one")}, nil, "one"},
		"inside a List":                               {[]string{`{"apiVersion":"v1","kind":"List","items":[` + deployment("one") + `]}`}, nil, "one"},
		"a Deployment of another group":               {[]string{workload("example.org/v1", "Deployment", "x")}, nil, fallback},
		"other kinds":                                 {[]string{workload("apps/v1", "StatefulSet", "x"), workload("v1", "Pod", "y")}, nil, fallback},
		"a configuration":                             {[]string{deployment("one")}, configOf(&set), "agents"},
		"a configuration with the empty text":         {[]string{deployment("one")}, configOf(&empty), "one"},
		"the empty text, and no Deployment":           {nil, configOf(&empty), fallback},
		"a configuration without the field":           {[]string{deployment("one")}, configOf(nil), fallback},
		"a variable":                                  {[]string{deployment("{{WHERE}}")}, configOf(&empty, variable), "there"},
		"a variable in the midst":                     {[]string{deployment("{{WHERE}}-x")}, configOf(&empty, variable), "there-x"},
		"the cluster":                                 {[]string{deployment("{{CLUSTER_NAME}}")}, nil, "paris"},
		"a variable without value":                    {[]string{deployment("{{WHERE}}")}, nil, fallback},
		"the install namespace itself":                {[]string{deployment("{{INSTALL_NAMESPACE}}")}, nil, fallback},
		"what is no namespace":                        {[]string{deployment("Not_One"), deployment("one")}, nil, "one"},
		"manifests that can't be read":                {[]string{``, `null`, `[]`, `"x"`, `{"a":"{{x"}`, `{"kind":"List","apiVersion":"v1"}`, deployment("one")}, nil, "one"},
		"a configuration, manifests of any condition": {[]string{`{`}, configOf(&set), "agents"},
	} {
		t.Run(name, func(t *testing.T) {
			source := templateOf(x.manifests...)
			if got := template.InstallNamespace(source, x.config, "paris"); got != x.want {
				t.Errorf("got %q, want %q", got, x.want)
			}
			parsed, err := template.Parse(source)
			if err != nil {
				return // of manifests that can't be read
			}
			if got := parsed.InstallNamespace(x.config, "paris"); got != x.want {
				t.Errorf("got %q of the parsed template, want %q", got, x.want)
			}
			if got, err := parsed.Render(input(nil, x.config)); err != nil || got.Namespace != x.want {
				t.Errorf("got %q, %v of Render, want %q", got.Namespace, err, x.want)
			}
		})
	}
}
