package manifest

import (
	"encoding/base64"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

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
