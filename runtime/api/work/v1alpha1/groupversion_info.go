package v1alpha1

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
)

// GroupVersion is the group and version of every kind in this package. Package kinds
// adds the kinds to a scheme.
var GroupVersion = schema.GroupVersion{Group: work.GroupName, Version: "v1alpha1"}
