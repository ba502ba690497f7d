package klusterlet

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

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
