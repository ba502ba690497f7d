package crud

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// ForeignAnnotations are those of objects whose resource has no attribute for them:
// they stay with the tool that has set them. The one of kubectl apply goes.
func ForeignAnnotations(path string) bool {
	key, ok := strings.CutPrefix(path, "metadata.annotations.")
	return ok && key != corev1.LastAppliedConfigAnnotation
}

// ForeignMetadata is ForeignAnnotations for resources that have no attribute for
// labels either.
func ForeignMetadata(path string) bool {
	return strings.HasPrefix(path, "metadata.labels.") || ForeignAnnotations(path)
}
