package workload

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/suggest"
)

// Objects of Kubernetes' own kinds are checked without asking a server: fields that do
// not exist, values of the wrong type, names that can't be valid, and a few things that
// every API server refuses. What passes may still be refused.

// KubernetesRelease is the Kubernetes release whose kinds and fields are known here.
const KubernetesRelease = "1.37"

// Problem is what is wrong with an object.
type Problem struct {
	// Path is that of the field, such as spec.replicas; empty for the object.
	Path string
	// Text says what is wrong, and what would be right. It quotes no values but
	// names.
	Text string
	// Unknown says that a later release of Kubernetes may know the field or kind.
	// Servers drop such a field; everything else is refused by all of them.
	Unknown bool
	// Typed says that the field takes values of another type, whatever this one says.
	Typed bool
}

// String is the problem as a sentence without its full stop.
func (p Problem) String() string {
	if p.Path == "" {
		return p.Text
	}
	return p.Path + " " + p.Text
}

// CheckObject lists what is wrong with an object in JSON's terms: maps with text keys,
// lists, texts, truth values, and numbers as json.Number. It lists the problems in
// the order of their paths. Objects of kinds that are not Kubernetes' own have none.
func CheckObject(object map[string]any) []Problem {
	apiVersion, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	known := kindsOf(apiVersion)
	if known == nil {
		if better, removed := replacedBy(apiVersion, kind); removed {
			return []Problem{{Path: "apiVersion", Text: fmt.Sprintf("is %s, which no supported release of Kubernetes has for the kind %s: use %s", apiVersion, kind, better)}}
		}
		return nil
	}
	sample, found := known[kind]
	if !found {
		return []Problem{{Path: "kind", Text: unknownKind(apiVersion, kind, known), Unknown: true}}
	}
	d := &decoder{}
	d.decode("", object, sample)
	problems := d.problems
	if !slices.ContainsFunc(problems, func(p Problem) bool { return !p.Unknown }) {
		problems = append(problems, required(kind, object)...)
	}
	slices.SortStableFunc(problems, func(a, b Problem) int { return cmp.Compare(a.Path, b.Path) })
	return problems
}

func unknownKind(apiVersion, kind string, known map[string]any) string {
	names := make([]string, 0, len(known))
	for name := range known {
		names = append(names, name)
	}
	text := fmt.Sprintf("is %s, which %s of Kubernetes %s does not have", kind, apiVersion, KubernetesRelease)
	if near := suggest.Name(kind, names); near != "" {
		return text + fmt.Sprintf("; did you mean %s?", near)
	}
	for _, other := range coreGroups() {
		for name := range kindsOf(other) {
			if strings.EqualFold(name, kind) {
				return text + fmt.Sprintf("; did you mean %s of %s?", name, other)
			}
		}
	}
	return text
}

// coreGroups are the API versions that kindsOf knows.
func coreGroups() []string {
	return []string{"v1", "apps/v1", "batch/v1", "autoscaling/v1", "autoscaling/v2", "policy/v1", "rbac.authorization.k8s.io/v1", "networking.k8s.io/v1", "storage.k8s.io/v1",
		"coordination.k8s.io/v1", "scheduling.k8s.io/v1", "discovery.k8s.io/v1", "admissionregistration.k8s.io/v1", "apiextensions.k8s.io/v1"}
}

// kindsOf are the kinds of one of Kubernetes' own API versions that can be objects
// of a work, each with a value of its type; nil for other API versions.
func kindsOf(apiVersion string) map[string]any {
	switch apiVersion {
	case "v1":
		return map[string]any{
			"ConfigMap": corev1.ConfigMap{}, "Endpoints": corev1.Endpoints{}, "Event": corev1.Event{}, "LimitRange": corev1.LimitRange{}, //nolint:staticcheck // works may still have endpoints
			"Namespace": corev1.Namespace{}, "Node": corev1.Node{}, "PersistentVolume": corev1.PersistentVolume{},
			"PersistentVolumeClaim": corev1.PersistentVolumeClaim{}, "Pod": corev1.Pod{}, "PodTemplate": corev1.PodTemplate{},
			"ReplicationController": corev1.ReplicationController{}, "ResourceQuota": corev1.ResourceQuota{}, "Secret": corev1.Secret{},
			"Service": corev1.Service{}, "ServiceAccount": corev1.ServiceAccount{},
		}
	case "apps/v1":
		return map[string]any{
			"ControllerRevision": appsv1.ControllerRevision{}, "DaemonSet": appsv1.DaemonSet{}, "Deployment": appsv1.Deployment{},
			"ReplicaSet": appsv1.ReplicaSet{}, "StatefulSet": appsv1.StatefulSet{},
		}
	case "batch/v1":
		return map[string]any{"CronJob": batchv1.CronJob{}, "Job": batchv1.Job{}}
	case "autoscaling/v1":
		return map[string]any{"HorizontalPodAutoscaler": autoscalingv1.HorizontalPodAutoscaler{}}
	case "autoscaling/v2":
		return map[string]any{"HorizontalPodAutoscaler": autoscalingv2.HorizontalPodAutoscaler{}}
	case "policy/v1":
		return map[string]any{"PodDisruptionBudget": policyv1.PodDisruptionBudget{}}
	case "rbac.authorization.k8s.io/v1":
		return map[string]any{
			"ClusterRole": rbacv1.ClusterRole{}, "ClusterRoleBinding": rbacv1.ClusterRoleBinding{}, "Role": rbacv1.Role{}, "RoleBinding": rbacv1.RoleBinding{},
		}
	case "networking.k8s.io/v1":
		return map[string]any{
			"IPAddress": networkingv1.IPAddress{}, "Ingress": networkingv1.Ingress{}, "IngressClass": networkingv1.IngressClass{},
			"NetworkPolicy": networkingv1.NetworkPolicy{}, "ServiceCIDR": networkingv1.ServiceCIDR{},
		}
	case "storage.k8s.io/v1":
		return map[string]any{
			"CSIDriver": storagev1.CSIDriver{}, "CSINode": storagev1.CSINode{}, "CSIStorageCapacity": storagev1.CSIStorageCapacity{},
			"StorageClass": storagev1.StorageClass{}, "VolumeAttachment": storagev1.VolumeAttachment{}, "VolumeAttributesClass": storagev1.VolumeAttributesClass{},
		}
	case "coordination.k8s.io/v1":
		return map[string]any{"Lease": coordinationv1.Lease{}}
	case "scheduling.k8s.io/v1":
		return map[string]any{"PriorityClass": schedulingv1.PriorityClass{}}
	case "discovery.k8s.io/v1":
		return map[string]any{"EndpointSlice": discoveryv1.EndpointSlice{}}
	case "admissionregistration.k8s.io/v1":
		return map[string]any{
			"MutatingWebhookConfiguration": admissionregistrationv1.MutatingWebhookConfiguration{}, "ValidatingWebhookConfiguration": admissionregistrationv1.ValidatingWebhookConfiguration{},
			"ValidatingAdmissionPolicy": admissionregistrationv1.ValidatingAdmissionPolicy{}, "ValidatingAdmissionPolicyBinding": admissionregistrationv1.ValidatingAdmissionPolicyBinding{},
			"MutatingAdmissionPolicy": admissionregistrationv1.MutatingAdmissionPolicy{}, "MutatingAdmissionPolicyBinding": admissionregistrationv1.MutatingAdmissionPolicyBinding{},
		}
	case "apiextensions.k8s.io/v1":
		return map[string]any{"CustomResourceDefinition": apiextensionsv1.CustomResourceDefinition{}}
	}
	return nil
}

// isClusterWide reports whether a kind has no namespace.
func isClusterWide(kind string) bool {
	switch kind {
	case "Namespace", "Node", "PersistentVolume", "ClusterRole", "ClusterRoleBinding", "IPAddress", "IngressClass", "ServiceCIDR", "CSIDriver", "CSINode",
		"StorageClass", "VolumeAttachment", "VolumeAttributesClass", "PriorityClass", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration",
		"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding", "CustomResourceDefinition":
		return true
	}
	return false
}

// replacedBy is the API version that took the place of one that supported releases
// do not have any more.
func replacedBy(apiVersion, kind string) (better string, removed bool) {
	switch apiVersion {
	case "apps/v1beta1", "apps/v1beta2":
		return "apps/v1", true
	case "extensions/v1beta1":
		switch kind {
		case "Ingress", "NetworkPolicy":
			return "networking.k8s.io/v1", true
		}
		return "apps/v1", true
	case "batch/v1beta1", "batch/v2alpha1":
		return "batch/v1", true
	case "autoscaling/v2beta1", "autoscaling/v2beta2":
		return "autoscaling/v2", true
	case "rbac.authorization.k8s.io/v1beta1", "rbac.authorization.k8s.io/v1alpha1":
		return "rbac.authorization.k8s.io/v1", true
	case "apiextensions.k8s.io/v1beta1":
		return "apiextensions.k8s.io/v1", true
	case "policy/v1beta1":
		return "policy/v1", kind == "PodDisruptionBudget"
	case "networking.k8s.io/v1beta1":
		return "networking.k8s.io/v1", kind == "Ingress" || kind == "IngressClass"
	}
	return "", false
}

// ResourceOf is the plural name of one of Kubernetes' own kinds, as RBAC and the
// options of a work have it; known is false for other kinds.
func ResourceOf(apiVersion, kind string) (plural string, known bool) {
	if _, known = kindsOf(apiVersion)[kind]; !known {
		return "", false
	}
	name := strings.ToLower(kind)
	switch {
	case strings.HasSuffix(name, "endpoints"):
		return name, true
	case strings.HasSuffix(name, "s"):
		return name + "es", true
	case strings.HasSuffix(name, "y"):
		return strings.TrimSuffix(name, "y") + "ies", true
	}
	return name + "s", true
}
