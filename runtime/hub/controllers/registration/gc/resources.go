package gc

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	addonv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1beta1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// DefaultResources are deleted with a cluster by default: the add-ons first, then
// the works, as some works belong to add-ons.
func DefaultResources() []schema.GroupVersionResource {
	return []schema.GroupVersionResource{
		addonv1beta1.GroupVersion.WithResource("managedclusteraddons"),
		workv1.GroupVersion.WithResource("manifestworks"),
	}
}

// ParseResources reads resources of the form group/version/resource; resources of
// the core group leave out the group. It returns nil for none.
func ParseResources(list []string) ([]schema.GroupVersionResource, error) {
	var out []schema.GroupVersionResource
	var problems []error
	for _, text := range list {
		parts := strings.Split(strings.TrimSpace(text), "/")
		if len(parts) == 2 {
			parts = append([]string{""}, parts...)
		}
		if len(parts) != 3 || parts[1] == "" || parts[2] == "" {
			problems = append(problems, fmt.Errorf("%q is not of the form group/version/resource, such as work.open-cluster-management.io/v1/manifestworks", text))
			continue
		}
		out = append(out, schema.GroupVersionResource{Group: parts[0], Version: parts[1], Resource: parts[2]})
	}
	return out, errors.Join(problems...)
}

// FormatResources is the reverse of ParseResources, with commas.
func FormatResources(list []schema.GroupVersionResource) string {
	text := make([]string, 0, len(list))
	for _, r := range list {
		text = append(text, strings.TrimPrefix(r.Group+"/"+r.Version+"/"+r.Resource, "/"))
	}
	return strings.Join(text, ",")
}
