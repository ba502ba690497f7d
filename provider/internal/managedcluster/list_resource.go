package managedcluster

import (
	"github.com/hashicorp/terraform-plugin-framework/list"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/listing"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// NewListResource lists managed clusters as resources.
func NewListResource() list.ListResource {
	return listing.New(listing.Kind[*clusterv1.ManagedCluster]{
		Type: "managed_cluster", Plural: "managed clusters", Objects: &clusterv1.ManagedClusterList{},
		About: "A cluster's agent is listed nowhere: the hub does not know how to reach it. Import it as `muster_klusterlet` with a connection to the cluster.",
		Adopt: func(object *clusterv1.ManagedCluster) (crud.Model, error) {
			state := importManagedCluster(object)
			return &state, nil
		},
		Sets:     listing.SetsOfCluster,
		Describe: listing.DescribeCluster,
	})
}
