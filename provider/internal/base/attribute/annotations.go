package attribute

import corev1 "k8s.io/api/core/v1"

// ImportableAnnotation reports whether an import may take an annotation over: it
// belongs to people, and not to this provider or to kubectl apply.
func ImportableAnnotation(key string) bool {
	return key != corev1.LastAppliedConfigAnnotation && ReservedAnnotation(key) == ""
}
