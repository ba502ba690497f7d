package clusterset

import (
	"fmt"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
)

// Binding is muster_managed_cluster_set_binding.
func Binding() crud.Declared {
	type binding = *clusterv1beta2.ManagedClusterSetBinding
	return &crud.Kind[binding]{
		Type: "managed_cluster_set_binding",
		Description: "Lets the placements of a namespace on the hub select from a cluster set. " +
			"Creating it needs the right to bind the set (`create` on `managedclustersets/bind`).",
		Keys: []crud.Key{
			{
				Name: "namespace",
				Description: "Namespace on the hub. It has to exist, for example as a `muster_namespace`. " +
					"Changing it replaces the binding.",
				Valid: attribute.ValidName("namespace"),
			},
			{
				Name: "cluster_set",
				Description: "Name of the cluster set, and of the binding. The set may be created later. " +
					"Changing it replaces the binding.",
				Valid: attribute.ValidName("cluster set name"),
			},
		},
		Empty:   &clusterv1beta2.ManagedClusterSetBinding{},
		Places:  map[string]string{cluster.RefusedSetBinding: "cluster_set"},
		Foreign: crud.ForeignMetadata,
		Hooks: crud.Hooks[binding]{
			What: func(keys []string) string {
				return fmt.Sprintf("the binding of cluster set %q to namespace %q", keys[1], keys[0])
			},
			Fill: func(keys []string, object binding) { object.Spec.ClusterSet = keys[1] },
		},
		List: &crud.List[binding]{
			Plural: "bindings of cluster sets", Objects: &clusterv1beta2.ManagedClusterSetBindingList{},
			Sets: func(object binding) []string { return []string{object.Spec.ClusterSet} },
			Is:   func(object binding) bool { return object.Spec.ClusterSet == object.Name }, // the API allows no other
		},
	}
}
