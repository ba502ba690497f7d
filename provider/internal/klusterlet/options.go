package klusterlet

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/muster-fleet/terraform-provider-muster/internal/klusterlet"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// AgentTable has the options of an agent, without its namespace.
func AgentTable() attribute.Table[*v1alpha1.AgentOptions] {
	type options = *v1alpha1.AgentOptions
	return attribute.Table[options]{
		attribute.Text("image", attribute.Optional("Container image of the agent. If omitted, the image of the "+
			"version that installs it, so that an upgrade of the provider or of the hub upgrades the agents.",
			stringvalidator.LengthAtLeast(1)),
			func(o options) *string { return &o.Image }),
		attribute.Text("image_pull_policy", attribute.Optional("When the image is pulled: `Always`, `IfNotPresent` "+
			"or `Never`. If omitted, as Kubernetes does by "+
			"default.", stringvalidator.OneOf("Always", "IfNotPresent", "Never")),
			func(o options) *corev1.PullPolicy { return &o.ImagePullPolicy }),
		attribute.Code("image_pull_secrets", attribute.OptionalTexts("Names of Secrets in the agent's namespace "+
			"with which the image is pulled. They have to be there, or to be created: the agent is not given them."),
			func(names types.List, o options) {
				for _, name := range attribute.StringList(names) {
					o.ImagePullSecrets = append(o.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
				}
			},
			func(o options) types.List {
				var names []string
				for _, secret := range o.ImagePullSecrets {
					names = append(names, secret.Name)
				}
				return attribute.StringListValue(names)
			}),
		attribute.TextList("args", attribute.OptionalTexts("Further arguments of `muster agent`, such as `-v=2`. "+
			"Those that the other attributes set, such as `--cluster-name`, are refused."),
			func(o options) *[]string { return &o.Args }),
		textMap("labels", "Labels of all objects of the agent, its pods included.",
			func(o options) *map[string]string { return &o.Labels }),
		textMap("annotations", "Annotations of the agent's pods, for example for a service mesh or a scraper.",
			func(o options) *map[string]string { return &o.Annotations }),
		attribute.Code("env", attribute.OptionalTextMap("Environment variables of the agent by name, for example "+
			"`HTTPS_PROXY` and `NO_PROXY` for a hub behind a proxy. The cluster's own API server is always reached "+
			"without the proxy. Values are in the state and in the cluster in clear: don't put secrets here."),
			func(env types.Map, o options) {
				values := entries(env)
				for _, name := range slices.Sorted(maps.Keys(values)) {
					o.Env = append(o.Env, v1alpha1.EnvVar{Name: name, Value: values[name]})
				}
			},
			func(o options) types.Map {
				values := map[string]string{}
				for _, variable := range o.Env {
					values[variable.Name] = variable.Value
				}
				return mapOrNull(values)
			}),
		NodeSelector(func(o options) *map[string]string { return &o.NodeSelector }),
		Tolerations(func(o options) *[]corev1.Toleration { return &o.Tolerations }),
		attribute.ObjectPointer("affinity",
			attribute.OptionalObject("Which nodes the agent needs or prefers, as in a pod's `affinity`."),
			func(o options) **corev1.Affinity { return &o.Affinity }, affinity()...),
		attribute.ObjectPointer("resources", attribute.OptionalObject("Resources of the agent's container. If "+
			"omitted, requests of 10m CPU and 64Mi memory, and a limit of 512Mi memory. If set, nothing of this is "+
			"added."),
			func(o options) **corev1.ResourceRequirements { return &o.Resources }, ResourceFields()...),
		attribute.Flag("host_network", attribute.OptionalFlag("Whether the agent runs in the node's network, for "+
			"clusters whose own network comes later, with the works. Then it listens on the node's port 8000, and "+
			"an update stops the agent before it starts the next one. Defaults to `false`."),
			func(o options) *bool { return &o.HostNetwork }),
		attribute.Text("priority_class_name",
			attribute.Optional("PriorityClass of the agent's pods, such as `system-cluster-critical`.",
				stringvalidator.LengthAtLeast(1)),
			func(o options) *string { return &o.PriorityClassName }),
		attribute.Flag("user_access", attribute.OptionalFlag("Whether users of the hub may have access to the "+
			"cluster through logical clouds. It gives the agent the right to approve client certificates of the "+
			"cluster, which is as good as any right there. Defaults to `false`."),
			func(o options) *bool { return &o.UserAccess }),
		attribute.Flag("tunnels", attribute.OptionalFlag("Whether users with access reach the cluster's API server "+
			"through the hub, where they can't reach it otherwise (`muster access proxy`). It needs `user_access`. "+
			"Defaults to `false`."),
			func(o options) *bool { return &o.Tunnels }),
	}
}

// AgentOptionNames are the names of the options, in their order.
func AgentOptionNames() []string { return attribute.Sorted(AgentTable().Names()) }

// AgentOptionsOf are the options that attributes say. What is unknown is left out.
func AgentOptionsOf(values attribute.Values) (options v1alpha1.AgentOptions) {
	AgentTable().Write(values, &options)
	return options
}

// entries are those of a map that have a value.
func entries(of types.Map) map[string]string {
	texts := attribute.StringMap(of)
	maps.DeleteFunc(texts, func(key, _ string) bool {
		return of.Elements()[key].IsNull() || of.Elements()[key].IsUnknown()
	})
	return texts
}

// mapOrNull is null where there are no entries.
func mapOrNull(texts map[string]string) types.Map {
	if len(texts) == 0 {
		return types.MapNull(types.StringType)
	}
	return attribute.StringMapValue(texts)
}

// textMap is a field with texts by name.
func textMap[P any](name, description string, at func(P) *map[string]string) attribute.Field[P] {
	return attribute.Code(name, attribute.OptionalTextMap(description),
		func(value types.Map, to P) { *at(to) = entries(value) },
		func(from P) types.Map { return mapOrNull(*at(from)) })
}

// NodeSelector is the attribute node_selector.
func NodeSelector[P any](at func(P) *map[string]string) attribute.Field[P] {
	return textMap("node_selector", "Labels of the nodes on which the agent may run.", at)
}

// ResourceFields are the attributes of resources.
func ResourceFields() []attribute.Field[*corev1.ResourceRequirements] {
	type resources = *corev1.ResourceRequirements
	quantities := func(name, description string, at func(resources) *corev1.ResourceList) attribute.Field[resources] {
		return attribute.Code(name, attribute.OptionalTextMap(description),
			func(value types.Map, to resources) {
				*at(to) = corev1.ResourceList{}
				for name, text := range entries(value) {
					if quantity, err := resource.ParseQuantity(text); err == nil {
						(*at(to))[corev1.ResourceName(name)] = quantity
					}
				}
			},
			func(from resources) types.Map {
				texts := map[string]string{}
				for name, quantity := range *at(from) {
					texts[string(name)] = quantity.String()
				}
				return mapOrNull(texts)
			})
	}
	return []attribute.Field[resources]{
		quantities("requests", "What the node has to have free, such as `{ cpu = \"50m\", memory = \"128Mi\" }`.",
			func(r resources) *corev1.ResourceList { return &r.Requests }),
		quantities("limits", "What the agent may use at most.",
			func(r resources) *corev1.ResourceList { return &r.Limits }),
	}
}

// Tolerations is the attribute tolerations.
func Tolerations[P any](at func(P) *[]corev1.Toleration) attribute.Field[P] {
	type toleration = *corev1.Toleration
	return attribute.Objects("tolerations", attribute.OptionalObjects("Taints of nodes that the agent tolerates."), at,
		attribute.Text("key",
			attribute.Optional("Key of the taint. Without it, with the operator `Exists`, every taint is tolerated."),
			func(t toleration) *string { return &t.Key }),
		attribute.Text("operator", attribute.Optional("`Equal`, the default, or `Exists`."),
			func(t toleration) *corev1.TolerationOperator { return &t.Operator }),
		attribute.Text("value", attribute.Optional("Value of the taint, with the operator `Equal`."),
			func(t toleration) *string { return &t.Value }),
		attribute.Text("effect",
			attribute.Optional("`NoSchedule`, `PreferNoSchedule` or `NoExecute`. If omitted, all."),
			func(t toleration) *corev1.TaintEffect { return &t.Effect }),
		attribute.NumberPointer("toleration_seconds", attribute.OptionalNumber("How long a taint with the effect "+
			"`NoExecute` is tolerated. If omitted, for good."),
			func(t toleration) **int64 { return &t.TolerationSeconds }))
}

// The attributes with the two kinds of rules of an affinity.
const (
	required  = "required_during_scheduling_ignored_during_execution"
	preferred = "preferred_during_scheduling_ignored_during_execution"
)

func affinity() []attribute.Field[*corev1.Affinity] {
	type rule = *corev1.PreferredSchedulingTerm
	return []attribute.Field[*corev1.Affinity]{
		attribute.ObjectPointer("node_affinity", attribute.OptionalObject("Rules about nodes."),
			func(a *corev1.Affinity) **corev1.NodeAffinity { return &a.NodeAffinity },
			attribute.ObjectPointer(required, attribute.OptionalObject("What nodes have to be like."),
				func(a *corev1.NodeAffinity) **corev1.NodeSelector {
					return &a.RequiredDuringSchedulingIgnoredDuringExecution
				},
				attribute.Objects("node_selector_terms",
					schema.ListNestedAttribute{
						MarkdownDescription: "Terms: a node has to meet one of them at least.", Required: true,
					},
					func(s *corev1.NodeSelector) *[]corev1.NodeSelectorTerm { return &s.NodeSelectorTerms },
					nodeTerm()...)),
			attribute.Objects(preferred, attribute.OptionalObjects("What nodes had better be like."),
				func(a *corev1.NodeAffinity) *[]corev1.PreferredSchedulingTerm {
					return &a.PreferredDuringSchedulingIgnoredDuringExecution
				},
				weight(func(r rule) *int32 { return &r.Weight }),
				attribute.Object("preference", attribute.RequiredObject("Term that a node had better meet."),
					func(r rule) *corev1.NodeSelectorTerm { return &r.Preference }, nodeTerm()...))),
		attribute.ObjectPointer("pod_affinity", attribute.OptionalObject("Pods near which the agent runs."),
			func(a *corev1.Affinity) **corev1.PodAffinity { return &a.PodAffinity },
			podRules(
				func(a *corev1.PodAffinity) *[]corev1.PodAffinityTerm {
					return &a.RequiredDuringSchedulingIgnoredDuringExecution
				},
				func(a *corev1.PodAffinity) *[]corev1.WeightedPodAffinityTerm {
					return &a.PreferredDuringSchedulingIgnoredDuringExecution
				})...),
		attribute.ObjectPointer("pod_anti_affinity", attribute.OptionalObject("Pods from which the agent keeps away."),
			func(a *corev1.Affinity) **corev1.PodAntiAffinity { return &a.PodAntiAffinity },
			podRules(
				func(a *corev1.PodAntiAffinity) *[]corev1.PodAffinityTerm {
					return &a.RequiredDuringSchedulingIgnoredDuringExecution
				},
				func(a *corev1.PodAntiAffinity) *[]corev1.WeightedPodAffinityTerm {
					return &a.PreferredDuringSchedulingIgnoredDuringExecution
				})...),
	}
}

func weight[P any](at func(P) *int32) attribute.Field[P] {
	return attribute.Number("weight",
		schema.Int64Attribute{MarkdownDescription: "How much it counts, from 1 to 100.", Required: true}, at)
}

func nodeTerm() []attribute.Field[*corev1.NodeSelectorTerm] {
	type term = *corev1.NodeSelectorTerm
	requirement := requirementFields(
		func(r *corev1.NodeSelectorRequirement) *string { return &r.Key },
		func(r *corev1.NodeSelectorRequirement) *corev1.NodeSelectorOperator { return &r.Operator },
		func(r *corev1.NodeSelectorRequirement) *[]string { return &r.Values })
	return []attribute.Field[term]{
		attribute.Objects("match_expressions", attribute.OptionalObjects("Requirements of the node's labels."),
			func(t term) *[]corev1.NodeSelectorRequirement { return &t.MatchExpressions }, requirement...),
		attribute.Objects("match_fields",
			attribute.OptionalObjects("Requirements of the node's fields: of `metadata.name`."),
			func(t term) *[]corev1.NodeSelectorRequirement { return &t.MatchFields }, requirement...),
	}
}

func requirementFields[P any, T ~string](
	key func(P) *string, operator func(P) *T, values func(P) *[]string,
) []attribute.Field[P] {
	return []attribute.Field[P]{
		attribute.Text("key", attribute.Required("What is compared."), key),
		attribute.Text("operator",
			attribute.Required("`In`, `NotIn`, `Exists`, `DoesNotExist`, and for nodes `Gt` and `Lt`."), operator),
		attribute.TextList("values", attribute.OptionalTexts("What it is compared with."), values),
	}
}

func podRules[P any](
	must func(P) *[]corev1.PodAffinityTerm, may func(P) *[]corev1.WeightedPodAffinityTerm,
) []attribute.Field[P] {
	type rule = *corev1.WeightedPodAffinityTerm
	return []attribute.Field[P]{
		attribute.Objects(required, attribute.OptionalObjects("What has to be."), must, podTerm()...),
		attribute.Objects(preferred, attribute.OptionalObjects("What had better be."), may,
			weight(func(r rule) *int32 { return &r.Weight }),
			attribute.Object("pod_affinity_term", attribute.RequiredObject("Which pods, and what counts as near."),
				func(r rule) *corev1.PodAffinityTerm { return &r.PodAffinityTerm }, podTerm()...)),
	}
}

func podTerm() []attribute.Field[*corev1.PodAffinityTerm] {
	type term = *corev1.PodAffinityTerm
	return []attribute.Field[term]{
		attribute.Text("topology_key",
			attribute.Required("Label of nodes within which pods count as near, such as `kubernetes.io/hostname`."),
			func(t term) *string { return &t.TopologyKey }),
		attribute.ObjectPointer("label_selector", attribute.OptionalObject("Which pods."),
			func(t term) **metav1.LabelSelector { return &t.LabelSelector }, selector()...),
		attribute.ObjectPointer("namespace_selector", attribute.OptionalObject("In which namespaces, by their labels."),
			func(t term) **metav1.LabelSelector { return &t.NamespaceSelector }, selector()...),
		attribute.TextList("namespaces", attribute.OptionalTexts("In which namespaces, by their names. If omitted, "+
			"and without `namespace_selector`, in the agent's own."),
			func(t term) *[]string { return &t.Namespaces }),
	}
}

func selector() []attribute.Field[*metav1.LabelSelector] {
	type selector = *metav1.LabelSelector
	return []attribute.Field[selector]{
		textMap("match_labels", "Labels that have to be there.",
			func(s selector) *map[string]string { return &s.MatchLabels }),
		attribute.Objects("match_expressions", attribute.OptionalObjects("Requirements of labels."),
			func(s selector) *[]metav1.LabelSelectorRequirement { return &s.MatchExpressions },
			requirementFields(
				func(r *metav1.LabelSelectorRequirement) *string { return &r.Key },
				func(r *metav1.LabelSelectorRequirement) *metav1.LabelSelectorOperator { return &r.Operator },
				func(r *metav1.LabelSelectorRequirement) *[]string { return &r.Values })...),
	}
}

// CheckAgentOptions refuses options that no agent can have. values are some attributes of
// AgentTable, below a path. What is not known yet is not missing.
func CheckAgentOptions(values attribute.Values, below path.Path, diags *diag.Diagnostics) {
	for _, problem := range problemsOf(values) {
		place := placeOf(problem.Field, values, below)
		name, _, _ := strings.Cut(problem.Field, ".")
		name, _, _ = strings.Cut(name, "[")
		diags.AddAttributeError(place, "Invalid "+snake(name),
			fmt.Sprintf("%s: %s.", place, strings.TrimSuffix(problem.ErrorBody(), ".")))
	}
}

// problemsOf lists what is wrong with options, without those that are not wholly known.
func problemsOf(values attribute.Values) field.ErrorList {
	problems := klusterlet.Validate(AgentOptionsOf(values), nil)
	resources, _ := values["resources"].(types.Object)
	for kind, list := range resources.Attributes() {
		quantities, _ := list.(types.Map)
		for name, text := range entries(quantities) {
			if _, err := resource.ParseQuantity(text); err != nil {
				problems = append(problems, field.Invalid(field.NewPath("resources", kind).Key(name), text,
					"it is no quantity; write it as in 100m, 0.5, 128Mi or 1Gi"))
			}
		}
	}
	return slices.DeleteFunc(problems, func(problem *field.Error) bool {
		value := values[snake(fieldSteps.FindString(problem.Field))]
		return value != nil && !attribute.Known(value)
	})
}

// snake is the attribute of one of the API's fields.
func snake(name string) string {
	var b strings.Builder
	for _, r := range name {
		if unicode.IsUpper(r) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// fieldSteps are the parts of one of the API's fields: names, and keys in brackets.
var fieldSteps = regexp.MustCompile(`\[[^\]]*\]|[^.\[]+`)

// placeOf is where in the configuration one of the API's fields is.
func placeOf(at string, values attribute.Values, below path.Path) path.Path {
	steps := fieldSteps.FindAllString(at, -1)
	first := snake(steps[0])
	place := below.AtName(first)
	for _, step := range steps[1:] {
		key, isKey := strings.CutPrefix(strings.TrimSuffix(step, "]"), "[")
		index, err := strconv.Atoi(key)
		switch {
		case !isKey:
			place = place.AtName(snake(step))
		case err != nil || first == "labels":
			place = place.AtMapKey(key)
		case first == "env": // by name, and not in a list
			return place.AtMapKey(AgentOptionsOf(values).Env[index].Name)
		case first == "image_pull_secrets": // names, and not objects
			return place.AtListIndex(index)
		default:
			place = place.AtListIndex(index)
		}
	}
	return place
}
