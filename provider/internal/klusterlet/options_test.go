package klusterlet

import (
	"reflect"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// everything has each option set but for the namespace, which is an attribute of its
// own.
func everything() v1alpha1.AgentOptions {
	near := corev1.PodAffinityTerm{
		TopologyKey: "zone", Namespaces: []string{"a"}, NamespaceSelector: &metav1.LabelSelector{},
		LabelSelector: &metav1.LabelSelector{
			MatchLabels:      map[string]string{"app.kubernetes.io/name": "x"},
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: metav1.LabelSelectorOpExists}},
		},
	}
	term := corev1.NodeSelectorTerm{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "arch", Operator: corev1.NodeSelectorOpIn, Values: []string{"arm64"}}},
		MatchFields:      []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"n1"}}},
	}
	return v1alpha1.AgentOptions{
		Image: "registry.example.com/muster:1", ImagePullPolicy: corev1.PullAlways,
		ImagePullSecrets: []corev1.LocalObjectReference{{Name: "pull"}},
		Labels:           map[string]string{"a_b.example.com/team_x": "a"}, Annotations: map[string]string{"note_one": "b"},
		Env: []v1alpha1.EnvVar{{Name: "A", Value: "1"}, {Name: "HTTPS_PROXY", Value: "http://p:1"}}, Args: []string{"-v=2"},
		Tolerations:  []corev1.Toleration{{Key: "edge", Operator: corev1.TolerationOpEqual, Value: "x", Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To[int64](5)}},
		NodeSelector: map[string]string{"pool": "system"},
		Affinity: &corev1.Affinity{
			NodeAffinity: &corev1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution:  &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term}},
				PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 3, Preference: term}},
			},
			PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{near}},
			PodAntiAffinity: &corev1.PodAntiAffinity{
				PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 10, PodAffinityTerm: near}},
			},
		},
		Resources: &corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")},
		},
		HostNetwork: true, PriorityClassName: "high", UserAccess: true, Tunnels: true,
	}
}

func TestOptionsKeepTheirMeaningInTerraform(t *testing.T) {
	for name, o := range map[string]v1alpha1.AgentOptions{"everything": everything(), "nothing": {}} {
		if got := AgentOptionsOf(AgentTable().Read(&o)); !equality.Semantic.DeepEqual(got, o) {
			t.Errorf("%s became\n%+v\nwant\n%+v", name, got, o)
		}
	}
	o := everything()
	fields := reflect.ValueOf(o)
	for i := range fields.NumField() {
		if name := fields.Type().Field(i).Name; fields.Field(i).IsZero() && name != "Namespace" {
			t.Errorf("the test sets no %s", name)
		}
	}
	if values := AgentTable().Read(&o); differ(values, AgentTable().Read(&o), AgentOptionNames()...) ||
		!differ(values, AgentTable().Read(&v1alpha1.AgentOptions{}), AgentOptionNames()...) {
		t.Error("models are not compared by what they say")
	}
}

// attributesOf are what a configuration in JSON says.
func attributesOf(t *testing.T, text string) map[string]attr.Value {
	t.Helper()
	of := types.ObjectType{AttrTypes: AgentTable().Types()}
	raw, err := tfprotov6.DynamicValue{JSON: []byte(text)}.Unmarshal(of.TerraformType(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	value, err := of.ValueFromTerraform(t.Context(), raw)
	if err != nil {
		t.Fatal(err)
	}
	return value.(types.Object).Attributes()
}

func TestProblemsNameTheAttribute(t *testing.T) {
	for text, want := range map[string]string{
		`{"tolerations": [{"key": "a"}, {"key": "a", "toleration_seconds": 3}]}`: `tolerations[1].effect`,
		`{"env": {"OK": "1", "NOT OK": "2"}}`:                                    `env["NOT OK"]`,
		`{"image_pull_secrets": ["a", "B"]}`:                                     `image_pull_secrets[1]`,
		`{"args": ["--namespace=x"]}`:                                            `args[0]`,
		`{"labels": {"app": "x"}}`:                                               `labels["app"]`,
		`{"resources": {"limits": {"cpu": "two"}}}`:                              `resources.limits["cpu"]`,
		`{"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}`:      `resources.requests["cpu"]`,
		`{"priority_class_name": "A"}`:                                           `priority_class_name`,
		`{"affinity": {"pod_affinity": {"required_during_scheduling_ignored_during_execution": [{"topology_key": ""}]}}}`: `affinity.pod_affinity.required_during_scheduling_ignored_during_execution[0].topology_key`,
	} {
		var diags diag.Diagnostics
		CheckAgentOptions(attributesOf(t, text), path.Empty(), &diags)
		if len(diags) != 1 {
			t.Errorf("%s: got %v", text, diags)
			continue
		}
		if at := diags[0].(diag.DiagnosticWithPath).Path().String(); at != want {
			t.Errorf("%s: at %s, want %s", text, at, want)
		}
		var below diag.Diagnostics
		CheckAgentOptions(attributesOf(t, text), path.Root("agent"), &below)
		if at := below[0].(diag.DiagnosticWithPath).Path().String(); at != "agent."+want {
			t.Errorf("%s: at %s, want %s", text, at, "agent."+want)
		}
	}
}

func TestWhatIsUnknownIsNotMissing(t *testing.T) {
	attributes := attributesOf(t, `{"tolerations": [{"value": "x"}], "resources": {"requests": {"cpu": "2"}}, "env": {"A": "1"}}`)
	toleration := attributes["tolerations"].(types.List).Elements()[0].(types.Object).Attributes()
	toleration["key"] = types.StringUnknown()
	of := attributes["tolerations"].(types.List).ElementType(t.Context()).(types.ObjectType)
	attributes["tolerations"] = types.ListValueMust(of, []attr.Value{types.ObjectValueMust(of.AttrTypes, toleration)})
	resources := attributes["resources"].(types.Object).Attributes()
	resources["limits"] = types.MapUnknown(types.StringType)
	attributes["resources"] = types.ObjectValueMust(attributes["resources"].(types.Object).AttributeTypes(t.Context()), resources)
	attributes["affinity"] = types.ObjectUnknown(attributes["affinity"].(types.Object).AttributeTypes(t.Context()))
	attributes["env"] = types.MapValueMust(types.StringType, map[string]attr.Value{"A": types.StringUnknown(), "B": types.StringNull()})
	var diags diag.Diagnostics
	CheckAgentOptions(attributes, path.Empty(), &diags)
	if diags.HasError() {
		t.Errorf("got %v", diags)
	}
	if env := AgentOptionsOf(attributes).Env; len(env) != 0 {
		t.Errorf("variables without a value became %v", env)
	}
}
