package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
)

// markServiceSpec puts the hash of a service's spec into its annotations, where
// upstream's agent looks for it: without it, that agent would replace every
// service when it takes over from this one. A spec that is none has no hash; the
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
