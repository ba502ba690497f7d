package applier

import (
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// merged is the live object with the body of the required one.
func merged(live, required *unstructured.Unstructured, metadata any) *unstructured.Unstructured {
	want := required.DeepCopy()
	for k, v := range live.DeepCopy().Object {
		if _, ok := want.Object[k]; !ok && isFilledIn(required, k) {
			want.Object[k] = v
		}
	}
	if status, ok := live.Object["status"]; ok {
		want.Object["status"] = status
	}
	want.Object["metadata"] = metadata
	return want
}

// mergedMetadata is the metadata of the live object with the labels,
// annotations and owners of the required one added.
func mergedMetadata(live, required *unstructured.Unstructured, owner metav1.OwnerReference, owned bool) any {
	want := live.DeepCopy()
	if labels := mergedMap(live.GetLabels(), required.GetLabels()); !maps.Equal(labels, live.GetLabels()) {
		want.SetLabels(labels)
	}
	if annotations := mergedMap(live.GetAnnotations(), required.GetAnnotations()); !maps.Equal(annotations, live.GetAnnotations()) {
		want.SetAnnotations(annotations)
	}
	refs := live.GetOwnerReferences()
	for _, r := range required.GetOwnerReferences() {
		refs, _ = withOwner(refs, r, true)
	}
	if refs, changed := withOwner(refs, owner, owned); changed || len(refs) != len(live.GetOwnerReferences()) {
		want.SetOwnerReferences(refs)
	}
	return want.Object["metadata"]
}

// mergedMap adds the wanted entries to what there is. A key that ends in "-"
// removes the entry.
func mergedMap(have, want map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range have {
		out[k] = v
	}
	for k, v := range want {
		if removed, ok := strings.CutSuffix(k, "-"); ok {
			delete(out, removed)
		} else {
			out[k] = v
		}
	}
	return out
}

func withoutRemovals(m map[string]string) map[string]string {
	var out map[string]string
	for k, v := range m {
		if !strings.HasSuffix(k, "-") {
			if out == nil {
				out = map[string]string{}
			}
			out[k] = v
		}
	}
	return out
}
