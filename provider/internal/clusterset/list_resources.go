package clusterset

import (
	"github.com/hashicorp/terraform-plugin-framework/list"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/listing"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
)

// NewListResource lists cluster sets.
func NewListResource() list.ListResource {
	return listing.New(listing.Kind[*clusterv1beta2.ManagedClusterSet]{
		Type: "managed_cluster_set", Plural: "cluster sets", Objects: &clusterv1beta2.ManagedClusterSetList{},
		About:     "The sets `default` and `global`, which every hub has, count as made by the hub.",
		Adopt:     func(object *clusterv1beta2.ManagedClusterSet) (crud.Model, error) { return importSet(object), nil },
		Generated: func(object *clusterv1beta2.ManagedClusterSet) bool { return isHubSet(object.Name) },
		Describe: func(object *clusterv1beta2.ManagedClusterSet) string {
			if object.Spec.ClusterSelector.SelectorType == clusterv1beta2.LabelSelector {
				return "by labels"
			}
			return ""
		},
	})
}

// NewBindingListResource lists bindings of cluster sets.
func NewBindingListResource() list.ListResource {
	return listing.New(listing.Kind[*clusterv1beta2.ManagedClusterSetBinding]{
		Type: "managed_cluster_set_binding", Plural: "bindings of cluster sets", Objects: &clusterv1beta2.ManagedClusterSetBindingList{},
		NamespaceAttribute: "namespace",
		Adopt: func(object *clusterv1beta2.ManagedClusterSetBinding) (crud.Model, error) {
			return importBinding(object), nil
		},
		Sets: func(object *clusterv1beta2.ManagedClusterSetBinding) []string {
			return []string{object.Spec.ClusterSet}
		},
		Is: func(object *clusterv1beta2.ManagedClusterSetBinding) bool {
			return object.Spec.ClusterSet == object.Name // the API allows no other
		},
	})
}
