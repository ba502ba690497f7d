package klusterlet

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// Validate lists what is wrong with options for an agent, below a path. Terraform
// asks it while planning, and the hub when a ClusterImport is written, so both refuse
// the same.
func Validate(o v1alpha1.AgentOptions, at *field.Path) field.ErrorList {
	problems := validateImage(o, at)
	problems = append(problems, validateNamespace(o.Namespace, at.Child("namespace"))...)
	problems = append(problems, metav1validation.ValidateLabels(o.Labels, at.Child("labels"))...)
	if app, ok := o.Labels[AppLabel]; ok && app != Name {
		problems = append(problems, field.Invalid(at.Child("labels").Key(AppLabel), app,
			fmt.Sprintf("the agent's pods are found by this label, with the value %s; use another key", Name)))
	}
	problems = append(problems, apivalidation.ValidateAnnotations(o.Annotations, at.Child("annotations"))...)
	problems = append(problems, validateEnv(o.Env, at.Child("env"))...)
	problems = append(problems, validateArgs(o.Args, at.Child("args"))...)
	problems = append(problems, metav1validation.ValidateLabels(o.NodeSelector, at.Child("nodeSelector"))...)
	problems = append(problems, validateTolerations(o.Tolerations, at.Child("tolerations"))...)
	problems = append(problems, validateAffinity(o.Affinity, at.Child("affinity"))...)
	problems = append(problems, validateResources(o.Resources, at.Child("resources"))...)
	if o.Tunnels && !o.UserAccess {
		problems = append(problems, field.Invalid(at.Child("tunnels"), true,
			"it is for users with access to the cluster; turn user access on, too, or remove it"))
	}
	if o.PriorityClassName != "" {
		problems = append(problems, invalid(at.Child("priorityClassName"), o.PriorityClassName,
			"it has to be the name of a PriorityClass of the cluster", validation.IsDNS1123Subdomain(o.PriorityClassName))...)
	}
	return problems
}

// invalid makes one problem of what Kubernetes says about a value.
func invalid(at *field.Path, value any, rule string, problems []string) field.ErrorList {
	if len(problems) == 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(at, value, rule+": "+strings.Join(problems, "; "))}
}

// oneOf wants one of some values, or none.
func oneOf[T ~string](at *field.Path, value T, allowed ...T) field.ErrorList {
	if value == "" || slices.Contains(allowed, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(at, value, allowed)}
}

func validateNamespace(name string, at *field.Path) field.ErrorList {
	if name == "" {
		return nil
	}
	if strings.HasPrefix(name, "kube-") || name == corev1.NamespaceDefault {
		return field.ErrorList{field.Invalid(at, name, "the agent's namespace is removed with the agent, so it can't be one of the cluster's own; choose another name")}
	}
	return invalid(at, name, "it has to be the name of a namespace", validation.IsDNS1123Label(name))
}

func validateImage(o v1alpha1.AgentOptions, at *field.Path) field.ErrorList {
	problems := oneOf(at.Child("imagePullPolicy"), o.ImagePullPolicy, corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)
	image := at.Child("image")
	switch {
	case strings.ContainsFunc(o.Image, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		problems = append(problems, field.Invalid(image, o.Image, "an image has no spaces or line breaks; remove them"))
	case strings.Contains(o.Image, "://"):
		problems = append(problems, field.Invalid(image, o.Image, "an image begins with its registry and not with a scheme; remove the text up to ://"))
	}
	seen := map[string]bool{}
	for i, secret := range o.ImagePullSecrets {
		at := at.Child("imagePullSecrets").Index(i).Child("name")
		if seen[secret.Name] {
			problems = append(problems, field.Duplicate(at, secret.Name))
		}
		seen[secret.Name] = true
		problems = append(problems, invalid(at, secret.Name, "it has to be the name of a Secret in the agent's namespace", validation.IsDNS1123Subdomain(secret.Name))...)
	}
	return problems
}

func validateEnv(env []v1alpha1.EnvVar, at *field.Path) field.ErrorList {
	var problems field.ErrorList
	seen := map[string]bool{}
	for i, variable := range env {
		name, value := at.Index(i).Child("name"), at.Index(i).Child("value")
		if seen[variable.Name] {
			problems = append(problems, field.Duplicate(name, variable.Name))
		}
		seen[variable.Name] = true
		problems = append(problems, invalid(name, variable.Name, "it has to be the name of an environment variable, such as HTTPS_PROXY", validation.IsEnvVarName(variable.Name))...)
		switch {
		case strings.ContainsRune(variable.Value, 0):
			problems = append(problems, field.Invalid(value, "", fmt.Sprintf("the value of %s has a NUL character, which no environment variable can have; remove it", variable.Name)))
		case isProxy(variable.Name):
			if why := badProxy(variable.Value); why != "" {
				problems = append(problems, field.Invalid(value, "", fmt.Sprintf("the value of %s %s; write it as in http://proxy.example.com:3128", variable.Name, why)))
			}
		}
	}
	return problems
}

// protectedFlags are the flags that the options set, with what to do.
func protectedFlags() map[string]string {
	return map[string]string{
		"cluster-name":         "use the name of the cluster",
		"client-id":            "the agent registers by the name of the cluster",
		"registration-label":   "an agent with a name can't choose labels; set them on the ManagedCluster",
		"namespace":            "use the option for the namespace",
		"bootstrap-kubeconfig": "hand over a bootstrap kubeconfig",
		"health-address":       "remove it, as the pod's probes ask this address",
		"kubeconfig":           "remove it, as the agent uses its service account",
		userAccessFlag:         "use the option for user access",
		tunnelsFlag:            "use the option for tunnels",
	}
}

func validateArgs(args []string, at *field.Path) field.ErrorList {
	var problems field.ErrorList
	for i, arg := range args {
		flag, _, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		use, protected := protectedFlags()[strings.ReplaceAll(flag, "_", "-")]
		switch {
		case arg == "":
			problems = append(problems, field.Invalid(at.Index(i), arg, "an argument can't be empty; remove it"))
		case arg == "--":
			problems = append(problems, field.Invalid(at.Index(i), arg, "it ends the flags, and the agent takes nothing but flags; remove it"))
		case protected && strings.HasPrefix(arg, "--"):
			problems = append(problems, field.Invalid(at.Index(i), arg, fmt.Sprintf("the flag --%s is set for the agent and can't be set here; %s", flag, use)))
		}
	}
	return problems
}

func validateTolerations(tolerations []corev1.Toleration, at *field.Path) field.ErrorList {
	var problems field.ErrorList
	for i, t := range tolerations {
		at := at.Index(i)
		if t.Key != "" {
			problems = append(problems, metav1validation.ValidateLabelName(t.Key, at.Child("key"))...)
		}
		problems = append(problems, oneOf(at.Child("operator"), t.Operator, corev1.TolerationOpEqual, corev1.TolerationOpExists)...)
		problems = append(problems, oneOf(at.Child("effect"), t.Effect, corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute)...)
		switch {
		case t.Key == "" && t.Operator != corev1.TolerationOpExists:
			problems = append(problems, field.Invalid(at.Child("operator"), t.Operator, "without a key the operator has to be Exists, which tolerates every taint; set it, or a key"))
		case t.Operator == corev1.TolerationOpExists && t.Value != "":
			problems = append(problems, field.Invalid(at.Child("value"), t.Value, "the operator Exists takes no value; remove it, or use the operator Equal"))
		}
		if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
			problems = append(problems, field.Invalid(at.Child("effect"), t.Effect, "tolerationSeconds only works with the effect NoExecute; set it, or remove the seconds"))
		}
	}
	return problems
}

func validateResources(resources *corev1.ResourceRequirements, at *field.Path) field.ErrorList {
	if resources == nil {
		return nil
	}
	var problems field.ErrorList
	if len(resources.Claims) > 0 {
		problems = append(problems, field.Invalid(at.Child("claims"), len(resources.Claims), "the agent's pods have no resource claims; remove them"))
	}
	for kind, list := range map[string]corev1.ResourceList{"limits": resources.Limits, "requests": resources.Requests} {
		for name, quantity := range list {
			at := at.Child(kind).Key(string(name))
			known := slices.Contains([]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage}, name)
			if !known && !strings.Contains(string(name), "/") && !strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
				problems = append(problems, field.Invalid(at, string(name),
					"it is not a resource of containers; use cpu, memory, ephemeral-storage, or a name with a domain"))
			}
			if quantity.Sign() < 0 {
				problems = append(problems, field.Invalid(at, quantity.String(), "it can't be less than 0"))
			}
			limit, limited := resources.Limits[name]
			if kind == "requests" && limited && quantity.Cmp(limit) > 0 {
				problems = append(problems, field.Invalid(at, quantity.String(), fmt.Sprintf("it is more than the limit of %s; lower it, or raise the limit", limit.String())))
			}
		}
	}
	slices.SortFunc(problems, func(a, b *field.Error) int { return strings.Compare(a.Field, b.Field) })
	return problems
}

// The names of the two kinds of rules of an affinity.
const (
	required  = "requiredDuringSchedulingIgnoredDuringExecution"
	preferred = "preferredDuringSchedulingIgnoredDuringExecution"
)

func validateAffinity(affinity *corev1.Affinity, at *field.Path) field.ErrorList {
	if affinity == nil {
		return nil
	}
	problems := validateNodeAffinity(affinity.NodeAffinity, at.Child("nodeAffinity"))
	if near := affinity.PodAffinity; near != nil {
		problems = append(problems, validatePodTerms(near.RequiredDuringSchedulingIgnoredDuringExecution,
			near.PreferredDuringSchedulingIgnoredDuringExecution, at.Child("podAffinity"))...)
	}
	if apart := affinity.PodAntiAffinity; apart != nil {
		problems = append(problems, validatePodTerms(apart.RequiredDuringSchedulingIgnoredDuringExecution,
			apart.PreferredDuringSchedulingIgnoredDuringExecution, at.Child("podAntiAffinity"))...)
	}
	return problems
}

func validateNodeAffinity(affinity *corev1.NodeAffinity, at *field.Path) field.ErrorList {
	if affinity == nil {
		return nil
	}
	var problems field.ErrorList
	if must := affinity.RequiredDuringSchedulingIgnoredDuringExecution; must != nil {
		at := at.Child(required).Child("nodeSelectorTerms")
		if len(must.NodeSelectorTerms) == 0 {
			problems = append(problems, field.Required(at, "without a term no node is allowed; add one, or remove the rule"))
		}
		for i, term := range must.NodeSelectorTerms {
			problems = append(problems, validateNodeTerm(term, at.Index(i))...)
		}
	}
	for i, rule := range affinity.PreferredDuringSchedulingIgnoredDuringExecution {
		at := at.Child(preferred).Index(i)
		problems = append(problems, validateWeight(rule.Weight, at)...)
		problems = append(problems, validateNodeTerm(rule.Preference, at.Child("preference"))...)
	}
	return problems
}

func validateWeight(weight int32, at *field.Path) field.ErrorList {
	if weight < 1 || weight > 100 {
		return field.ErrorList{field.Invalid(at.Child("weight"), weight, "it has to be between 1 and 100")}
	}
	return nil
}

func validateNodeTerm(term corev1.NodeSelectorTerm, at *field.Path) field.ErrorList {
	var problems field.ErrorList
	for i, r := range term.MatchExpressions {
		at := at.Child("matchExpressions").Index(i)
		problems = append(problems, metav1validation.ValidateLabelName(r.Key, at.Child("key"))...)
		problems = append(problems, validateNodeRequirement(r, at)...)
	}
	for i, r := range term.MatchFields {
		at := at.Child("matchFields").Index(i)
		if r.Key != metav1.ObjectNameField {
			problems = append(problems, field.NotSupported(at.Child("key"), r.Key, []string{metav1.ObjectNameField}))
		}
		problems = append(problems, oneOf(at.Child("operator"), r.Operator, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn)...)
		if len(r.Values) != 1 {
			problems = append(problems, field.Required(at.Child("values"), "a field is compared with one value"))
		}
	}
	return problems
}

func validateNodeRequirement(r corev1.NodeSelectorRequirement, at *field.Path) field.ErrorList {
	values := at.Child("values")
	switch r.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		if len(r.Values) == 0 {
			return field.ErrorList{field.Required(values, fmt.Sprintf("the operator %s needs values; add them, or use Exists or DoesNotExist", r.Operator))}
		}
	case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
		if len(r.Values) > 0 {
			return field.ErrorList{field.Forbidden(values, fmt.Sprintf("the operator %s takes no values; remove them, or use In or NotIn", r.Operator))}
		}
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		if len(r.Values) != 1 {
			return field.ErrorList{field.Required(values, fmt.Sprintf("the operator %s needs one value, a whole number", r.Operator))}
		}
	default:
		return field.ErrorList{field.NotSupported(at.Child("operator"), r.Operator, []corev1.NodeSelectorOperator{
			corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn, corev1.NodeSelectorOpExists,
			corev1.NodeSelectorOpDoesNotExist, corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt,
		})}
	}
	return nil
}

func validatePodTerms(must []corev1.PodAffinityTerm, may []corev1.WeightedPodAffinityTerm, at *field.Path) field.ErrorList {
	var problems field.ErrorList
	for i, term := range must {
		problems = append(problems, validatePodTerm(term, at.Child(required).Index(i))...)
	}
	for i, rule := range may {
		at := at.Child(preferred).Index(i)
		problems = append(problems, validateWeight(rule.Weight, at)...)
		problems = append(problems, validatePodTerm(rule.PodAffinityTerm, at.Child("podAffinityTerm"))...)
	}
	return problems
}

func validatePodTerm(term corev1.PodAffinityTerm, at *field.Path) field.ErrorList {
	var problems field.ErrorList
	if term.TopologyKey == "" {
		problems = append(problems, field.Required(at.Child("topologyKey"), "it names the node label within which pods count as together, such as kubernetes.io/hostname"))
	} else {
		problems = append(problems, metav1validation.ValidateLabelName(term.TopologyKey, at.Child("topologyKey"))...)
	}
	options := metav1validation.LabelSelectorValidationOptions{}
	problems = append(problems, metav1validation.ValidateLabelSelector(term.LabelSelector, options, at.Child("labelSelector"))...)
	problems = append(problems, metav1validation.ValidateLabelSelector(term.NamespaceSelector, options, at.Child("namespaceSelector"))...)
	for i, namespace := range term.Namespaces {
		problems = append(problems, invalid(at.Child("namespaces").Index(i), namespace, "it has to be the name of a namespace", validation.IsDNS1123Label(namespace))...)
	}
	return problems
}
