package workload

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
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
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

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
			return []Problem{{Path: "apiVersion", Text: fmt.Sprintf("is %s, which no supported release of Kubernetes "+
				"has for the kind %s: use %s", apiVersion, kind, better)}}
		}
		return nil
	}
	found, ok := known[kind]
	if !ok {
		return []Problem{{Path: "kind", Text: unknownKind(apiVersion, kind, known), Unknown: true}}
	}
	d := &decoder{}
	d.value("", object, found.of)
	problems := d.problems
	if !slices.ContainsFunc(problems, func(p Problem) bool { return !p.Unknown }) {
		problems = append(problems, required(kind, found.clusterWide, object)...)
	}
	slices.SortStableFunc(problems, func(a, b Problem) int { return cmp.Compare(a.Path, b.Path) })
	return problems
}

func unknownKind(apiVersion, kind string, known map[string]coreKind) string {
	text := fmt.Sprintf("is %s, which %s of Kubernetes %s does not have", kind, apiVersion, KubernetesRelease)
	if near := suggest.Name(kind, slices.Collect(maps.Keys(known))); near != "" {
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
	return []string{
		"v1", "apps/v1", "batch/v1", "autoscaling/v1", "autoscaling/v2", "policy/v1", "rbac.authorization.k8s.io/v1",
		"networking.k8s.io/v1", "storage.k8s.io/v1", "coordination.k8s.io/v1", "scheduling.k8s.io/v1",
		"discovery.k8s.io/v1", "admissionregistration.k8s.io/v1", "apiextensions.k8s.io/v1",
	}
}

// coreKind is one of Kubernetes' own kinds.
type coreKind struct {
	of          reflect.Type
	clusterWide bool
}

// kindsOf are the kinds of one of Kubernetes' own API versions that can be objects
// of a work; nil for other API versions.
func kindsOf(apiVersion string) map[string]coreKind {
	namespaced, clusterWide := coreTypes(apiVersion)
	if namespaced == nil && clusterWide == nil {
		return nil
	}
	kinds := map[string]coreKind{}
	for _, sample := range namespaced {
		kinds[reflect.TypeOf(sample).Name()] = coreKind{of: reflect.TypeOf(sample)}
	}
	for _, sample := range clusterWide {
		kinds[reflect.TypeOf(sample).Name()] = coreKind{reflect.TypeOf(sample), true}
	}
	return kinds
}

// coreTypes are the types of kindsOf, which have the kinds' names.
func coreTypes(apiVersion string) (namespaced, clusterWide []any) {
	switch apiVersion {
	case "v1":
		return []any{
			corev1.ConfigMap{}, corev1.Event{}, corev1.LimitRange{}, corev1.PersistentVolumeClaim{}, corev1.Pod{},
			corev1.Endpoints{}, //nolint:staticcheck // works may still have endpoints
			corev1.PodTemplate{}, corev1.ReplicationController{}, corev1.ResourceQuota{}, corev1.Secret{},
			corev1.Service{}, corev1.ServiceAccount{},
		}, []any{corev1.Namespace{}, corev1.Node{}, corev1.PersistentVolume{}}
	case "apps/v1":
		return []any{
			appsv1.ControllerRevision{}, appsv1.DaemonSet{}, appsv1.Deployment{}, appsv1.ReplicaSet{},
			appsv1.StatefulSet{},
		}, nil
	case "batch/v1":
		return []any{batchv1.CronJob{}, batchv1.Job{}}, nil
	case "autoscaling/v1":
		return []any{autoscalingv1.HorizontalPodAutoscaler{}}, nil
	case "autoscaling/v2":
		return []any{autoscalingv2.HorizontalPodAutoscaler{}}, nil
	case "policy/v1":
		return []any{policyv1.PodDisruptionBudget{}}, nil
	case "rbac.authorization.k8s.io/v1":
		return []any{rbacv1.Role{}, rbacv1.RoleBinding{}}, []any{rbacv1.ClusterRole{}, rbacv1.ClusterRoleBinding{}}
	case "networking.k8s.io/v1":
		return []any{networkingv1.Ingress{}, networkingv1.NetworkPolicy{}},
			[]any{networkingv1.IPAddress{}, networkingv1.IngressClass{}, networkingv1.ServiceCIDR{}}
	case "storage.k8s.io/v1":
		return []any{storagev1.CSIStorageCapacity{}}, []any{
			storagev1.CSIDriver{}, storagev1.CSINode{}, storagev1.StorageClass{}, storagev1.VolumeAttachment{},
			storagev1.VolumeAttributesClass{},
		}
	case "coordination.k8s.io/v1":
		return []any{coordinationv1.Lease{}}, nil
	case "scheduling.k8s.io/v1":
		return nil, []any{schedulingv1.PriorityClass{}}
	case "discovery.k8s.io/v1":
		return []any{discoveryv1.EndpointSlice{}}, nil
	case "admissionregistration.k8s.io/v1":
		return nil, []any{
			admissionv1.MutatingWebhookConfiguration{}, admissionv1.ValidatingWebhookConfiguration{},
			admissionv1.ValidatingAdmissionPolicy{}, admissionv1.ValidatingAdmissionPolicyBinding{},
			admissionv1.MutatingAdmissionPolicy{}, admissionv1.MutatingAdmissionPolicyBinding{},
		}
	case "apiextensions.k8s.io/v1":
		return nil, []any{apiextensionsv1.CustomResourceDefinition{}}
	}
	return nil, nil
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
	resource, _ := meta.UnsafeGuessKindToResource(schema.FromAPIVersionAndKind(apiVersion, kind))
	return resource.Resource, true
}
