package manifest

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// normalize gives an object the form in which its update strategy needs it.
func normalize(required *unstructured.Unstructured, strategy workv1.UpdateStrategyType) {
	if strategy != workv1.UpdateStrategyTypeServerSideApply {
		makeComparable(required)
	}
	if strategy == workv1.UpdateStrategyTypeUpdate {
		markServiceSpec(required)
	}
}

// makeComparable gives an object the form in which the server returns it, as far
// as that decides whether it has to be written.
func makeComparable(required *unstructured.Unstructured) {
	delete(required.Object, "status")
	if IsCore(required, "Secret") {
		foldStringData(required.Object)
	}
	if IsAggregated(required) {
		delete(required.Object, "rules") // which the cluster fills in
	}
}

// foldStringData does what the API server does with it, so that a secret can be
// compared with what the server has.
func foldStringData(object map[string]any) {
	plain, found, err := unstructured.NestedStringMap(object, "stringData")
	if !found || err != nil {
		return
	}
	data, _, _ := unstructured.NestedMap(object, "data")
	if data == nil {
		data = map[string]any{}
	}
	for k, v := range plain {
		data[k] = base64.StdEncoding.EncodeToString([]byte(v))
	}
	object["data"] = data
	delete(object, "stringData")
}

// IsAggregated reports whether an object is a ClusterRole whose rules the API server
// aggregates from others.
func IsAggregated(o *unstructured.Unstructured) bool {
	gvk := o.GroupVersionKind()
	return gvk.Group == rbacv1.GroupName && gvk.Kind == "ClusterRole" && o.Object["aggregationRule"] != nil
}

// IsCore reports whether an object is of a kind in the API version v1.
func IsCore(o *unstructured.Unstructured, kind string) bool {
	return o.GetAPIVersion() == "v1" && o.GetKind() == kind
}

// markServiceSpec puts the hash of a service's spec into its annotations, where
// upstream's agent looks for it: without it, that agent would replace every
// service when it takes over from this one. A spec that can't be read has no hash; the
// server says what is wrong with it.
func markServiceSpec(required *unstructured.Unstructured) {
	if !IsCore(required, "Service") {
		return
	}
	fields, found, err := unstructured.NestedMap(required.Object, "spec")
	if !found || err != nil {
		return
	}
	spec := corev1.ServiceSpec{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &spec); err != nil {
		return
	}
	data, err := json.Marshal(spec)
	if err != nil {
		return
	}
	sum := sha256.Sum256(data)
	annotations := required.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[work.ServiceSpecHashAnnotation] = hex.EncodeToString(sum[:])
	required.SetAnnotations(annotations)
}
