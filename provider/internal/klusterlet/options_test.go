package klusterlet

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"
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
		HostNetwork: true, PriorityClassName: "high", UserAccess: true,
	}
}

func TestOptionsKeepTheirMeaningInTerraform(t *testing.T) {
	for name, o := range map[string]v1alpha1.AgentOptions{"everything": everything(), "nothing": {}} {
		if got := optionsOf(AgentTable().Read(&o)); !equality.Semantic.DeepEqual(got, o) {
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

// decoded is what a function or a test says, in JSON.
func decoded(t *testing.T, text string) map[string]any {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var given map[string]any
	if err := decoder.Decode(&given); err != nil {
		t.Fatal(err)
	}
	return given
}

func attributesOf(t *testing.T, text string) map[string]attr.Value {
	t.Helper()
	given := decoded(t, text)
	attributes := map[string]attr.Value{}
	for name, of := range AgentTable().Types() {
		value, err := decode(name, of, given[name])
		if err != nil {
			t.Fatal(err)
		}
		attributes[name] = value
	}
	return attributes
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
	if env := optionsOf(attributes).Env; len(env) != 0 {
		t.Errorf("variables without a value became %v", env)
	}
}

func TestArgumentsOfFunctionsAreReadAsTerraformReadsAttributes(t *testing.T) {
	o, err := DecodeAgentOptions(decoded(t, `{"env": {"A": 1, "B": true}, "host_network": "true", "tolerations": [{"operator": "Exists", "effect": "NoExecute", "toleration_seconds": "30"}], "image": null}`))
	want := v1alpha1.AgentOptions{
		Env: []v1alpha1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "true"}}, HostNetwork: true,
		Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To[int64](30)}},
	}
	if err != nil || !reflect.DeepEqual(o, want) {
		t.Errorf("got %+v, %v", o, err)
	}
	for text, want := range map[string]string{
		`{"tolerations": [{"kye": "a"}]}`:                "tolerations[0] has no attribute kye; its attributes are effect, key, operator, toleration_seconds, value",
		`{"tolerations": {"key": "a"}}`:                  "tolerations has to be a list",
		`{"env": ["A"]}`:                                 "env has to be a map",
		`{"resources": "1"}`:                             "resources has to be an object",
		`{"host_network": "perhaps"}`:                    "host_network has to be true or false",
		`{"tolerations": [{"toleration_seconds": 1.5}]}`: "tolerations[0].toleration_seconds has to be a whole number",
		`{"env": {"A": ["x"]}}`:                          `env["A"] has to be a text, and is a list`,
		`{"args": ["--user-access"]}`:                    `args[0]: Invalid value: "--user-access"`,
		`{"affinity": {"node_affinity": {"required_during_scheduling_ignored_during_execution": [{"weight": 1}]}}}`: "affinity.node_affinity.required_during_scheduling_ignored_during_execution has to be an object",
	} {
		if _, err := DecodeAgentOptions(decoded(t, text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}
