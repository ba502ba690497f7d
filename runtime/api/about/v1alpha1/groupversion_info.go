package v1alpha1

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of every kind in this package. Package kinds
// adds the kinds to a scheme.
var GroupVersion = schema.GroupVersion{Group: "about.k8s.io", Version: "v1alpha1"}
