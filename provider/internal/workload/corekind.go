package workload

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

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
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/muster-fleet/terraform-provider-muster/internal/suggest"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
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

// coreKind is one of Kubernetes' own kinds.
type coreKind struct {
	of          reflect.Type
	clusterWide bool
}

// kindsOf are the kinds of one of Kubernetes' own API versions that can be objects
// of a work; nil for other API versions.
func kindsOf(apiVersion string) map[string]coreKind { return coreKinds()[apiVersion] }

// coreGroups are the API versions that kindsOf knows.
func coreGroups() []string { return slices.Sorted(maps.Keys(coreKinds())) }

// coreKinds are Kubernetes' own kinds by API version, and by the names of their types,
// which are those of the kinds.
var coreKinds = sync.OnceValue(func() map[string]map[string]coreKind {
	kinds := map[string]map[string]coreKind{}
	add := func(clusterWide bool, apiVersion string, samples ...any) {
		if kinds[apiVersion] == nil {
			kinds[apiVersion] = map[string]coreKind{}
		}
		for _, sample := range samples {
			of := reflect.TypeOf(sample)
			kinds[apiVersion][of.Name()] = coreKind{of, clusterWide}
		}
	}
	add(false, "v1",
		corev1.ConfigMap{}, corev1.Event{}, corev1.LimitRange{}, corev1.PersistentVolumeClaim{}, corev1.Pod{},
		corev1.Endpoints{}, //nolint:staticcheck // works may still have endpoints
		corev1.PodTemplate{}, corev1.ReplicationController{}, corev1.ResourceQuota{}, corev1.Secret{},
		corev1.Service{}, corev1.ServiceAccount{})
	add(true, "v1", corev1.Namespace{}, corev1.Node{}, corev1.PersistentVolume{})
	add(false, "apps/v1", appsv1.ControllerRevision{}, appsv1.DaemonSet{}, appsv1.Deployment{}, appsv1.ReplicaSet{},
		appsv1.StatefulSet{})
	add(false, "batch/v1", batchv1.CronJob{}, batchv1.Job{})
	add(false, "autoscaling/v1", autoscalingv1.HorizontalPodAutoscaler{})
	add(false, "autoscaling/v2", autoscalingv2.HorizontalPodAutoscaler{})
	add(false, "policy/v1", policyv1.PodDisruptionBudget{})
	add(false, "rbac.authorization.k8s.io/v1", rbacv1.Role{}, rbacv1.RoleBinding{})
	add(true, "rbac.authorization.k8s.io/v1", rbacv1.ClusterRole{}, rbacv1.ClusterRoleBinding{})
	add(false, "networking.k8s.io/v1", networkingv1.Ingress{}, networkingv1.NetworkPolicy{})
	add(true, "networking.k8s.io/v1", networkingv1.IPAddress{}, networkingv1.IngressClass{}, networkingv1.ServiceCIDR{})
	add(false, "storage.k8s.io/v1", storagev1.CSIStorageCapacity{})
	add(true, "storage.k8s.io/v1", storagev1.CSIDriver{}, storagev1.CSINode{}, storagev1.StorageClass{},
		storagev1.VolumeAttachment{}, storagev1.VolumeAttributesClass{})
	add(false, "coordination.k8s.io/v1", coordinationv1.Lease{})
	add(true, "scheduling.k8s.io/v1", schedulingv1.PriorityClass{})
	add(false, "discovery.k8s.io/v1", discoveryv1.EndpointSlice{})
	add(true, "admissionregistration.k8s.io/v1",
		admissionv1.MutatingWebhookConfiguration{}, admissionv1.ValidatingWebhookConfiguration{},
		admissionv1.ValidatingAdmissionPolicy{}, admissionv1.ValidatingAdmissionPolicyBinding{},
		admissionv1.MutatingAdmissionPolicy{}, admissionv1.MutatingAdmissionPolicyBinding{})
	add(true, "apiextensions.k8s.io/v1", apiextensionsv1.CustomResourceDefinition{})
	return kinds
})

// replacedBy is the API version that took the place of one that supported releases
// do not have any more.
func replacedBy(apiVersion, kind string) (better string, removed bool) {
	switch apiVersion {
	case "policy/v1beta1":
		return "policy/v1", kind == "PodDisruptionBudget"
	case "networking.k8s.io/v1beta1":
		return "networking.k8s.io/v1", kind == "Ingress" || kind == "IngressClass"
	case "extensions/v1beta1":
		if kind == "Ingress" || kind == "NetworkPolicy" {
			return "networking.k8s.io/v1", true
		}
	}
	better, removed = map[string]string{
		"apps/v1beta1": "apps/v1", "apps/v1beta2": "apps/v1", "extensions/v1beta1": "apps/v1",
		"batch/v1beta1": "batch/v1", "batch/v2alpha1": "batch/v1",
		"autoscaling/v2beta1": "autoscaling/v2", "autoscaling/v2beta2": "autoscaling/v2",
		"rbac.authorization.k8s.io/v1beta1":  "rbac.authorization.k8s.io/v1",
		"rbac.authorization.k8s.io/v1alpha1": "rbac.authorization.k8s.io/v1",
		"apiextensions.k8s.io/v1beta1":       "apiextensions.k8s.io/v1",
	}[apiVersion]
	return better, removed
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

// decoder compares a value in JSON's terms with a Go type of the API, as strict
// decoding does, and goes on after a problem.
type decoder struct{ problems []Problem }

func (d *decoder) wrong(at, want string, value any) {
	text := fmt.Sprintf("has to be %s, and is %s", want, jsonTypeOf(value))
	d.problems = append(d.problems, Problem{Path: at, Text: text, Typed: true})
}

// unread is wrong for what is written as a text, which may be one of another form.
func (d *decoder) unread(at, want string, value any) {
	_, isText := value.(string)
	d.wrong(at, want, value)
	d.problems[len(d.problems)-1].Typed = !isText
}

func (d *decoder) value(at string, value any, want reflect.Type) {
	if value == nil {
		return // As good as absent.
	}
	if d.special(at, value, want) {
		return
	}
	switch want.Kind() {
	case reflect.Pointer:
		d.value(at, value, want.Elem())
	case reflect.Struct:
		d.object(at, value, want)
	case reflect.Map:
		fields, ok := value.(map[string]any)
		if !ok {
			d.wrong(at, "an object", value)
			return
		}
		for key, field := range fields {
			d.value(JoinPath(at, key), field, want.Elem())
		}
	case reflect.Slice:
		list, ok := value.([]any)
		if !ok {
			d.wrong(at, "a list", value)
			return
		}
		for i, element := range list {
			d.value(fmt.Sprintf("%s[%d]", at, i), element, want.Elem())
		}
	case reflect.String:
		if _, ok := value.(string); !ok {
			d.wrong(at, "a text", value)
		}
	case reflect.Bool:
		if _, ok := value.(bool); !ok {
			d.wrong(at, "true or false", value)
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		d.whole(at, value, want)
	case reflect.Float32, reflect.Float64:
		if _, ok := value.(json.Number); !ok {
			d.wrong(at, "a number", value)
		}
	}
}

func (d *decoder) whole(at string, value any, want reflect.Type) {
	number, ok := value.(json.Number)
	if !ok {
		d.wrong(at, "a whole number", value)
		return
	}
	float, err := number.Float64()
	if err != nil || float != float64(int64(float)) {
		d.wrong(at, "a whole number", value)
		return
	}
	bits := want.Bits()
	if limit := float64(uint64(1) << (bits - 1)); bits < 64 && (float >= limit || float < -limit) {
		d.problems = append(d.problems, Problem{Path: at, Text: fmt.Sprintf("has to fit into %d bits", bits)})
	}
}

// special are the types that have a notation of their own.
func (d *decoder) special(at string, value any, want reflect.Type) bool {
	text, isText := value.(string)
	switch want {
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime]():
		if _, err := time.Parse(time.RFC3339, text); err != nil {
			d.unread(at, "a time such as 2026-01-31T12:00:00Z", value)
		}
	case reflect.TypeFor[metav1.Duration]():
		if _, err := time.ParseDuration(text); err != nil {
			d.unread(at, "a duration such as 90s", value)
		}
	case reflect.TypeFor[intstr.IntOrString]():
		if !isText {
			d.whole(at, value, reflect.TypeFor[int32]())
		}
	case reflect.TypeFor[resource.Quantity]():
		if number, ok := value.(json.Number); ok {
			text, isText = number.String(), true
		}
		if _, err := resource.ParseQuantity(text); err != nil || !isText {
			d.unread(at, "a quantity such as 500m or 1Gi", value)
		}
	case reflect.TypeFor[[]byte]():
		if _, err := base64.StdEncoding.DecodeString(text); err != nil || !isText {
			d.unread(at, "base64; text as it is belongs in stringData of a Secret, or data of a ConfigMap", value)
		}
	case reflect.TypeFor[runtime.RawExtension](), reflect.TypeFor[metav1.FieldsV1]():
	default:
		// Types that read themselves may take anything.
		return want.Kind() == reflect.Struct && reflect.PointerTo(want).Implements(reflect.TypeFor[json.Unmarshaler]())
	}
	return true
}

func (d *decoder) object(at string, value any, want reflect.Type) {
	fields, ok := value.(map[string]any)
	if !ok {
		d.wrong(at, "an object", value)
		return
	}
	known := kube.JSONFields(want)
	for name, field := range fields {
		kind, found := known[name]
		if found {
			d.value(JoinPath(at, name), field, kind)
			continue
		}
		text := "is unknown, so that clusters drop it"
		if near := suggest.Name(name, slices.Collect(maps.Keys(known))); near != "" {
			text += fmt.Sprintf("; did you mean %s?", near)
		}
		d.problems = append(d.problems, Problem{Path: JoinPath(at, name), Text: text, Unknown: true})
	}
}

// jsonTypeOf is what a value in JSON's terms is. Values themselves may be secret.
func jsonTypeOf(value any) string {
	switch value.(type) {
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	case string:
		return "a text"
	case bool:
		return "true or false"
	case nil:
		return "null"
	default:
		return "a number"
	}
}
