package manifestwork

import (
	"github.com/hashicorp/terraform-plugin-framework/list"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/listing"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// NewListResource lists manifest works.
func NewListResource() list.ListResource {
	return listing.New(listing.Kind[*workv1.ManifestWork]{
		Type: "manifest_work", Plural: "manifest works", Objects: &workv1.ManifestWorkList{},
		About:              "Works of replica sets and of add-ons count as made by a controller.",
		NamespaceAttribute: "managed_cluster",
		Adopt: func(object *workv1.ManifestWork) (crud.Model, error) {
			m, err := importWork(object)
			return &m, err
		},
		Generated: func(object *workv1.ManifestWork) bool {
			return object.Labels[work.ReplicaSetLabel] != "" || object.Labels[cluster.AddOnNameLabel] != ""
		},
		Cluster: func(object *workv1.ManifestWork) string { return object.Namespace },
		Describe: func(object *workv1.ManifestWork) string {
			return listing.Count(len(object.Spec.Workload.Manifests), "object")
		},
	})
}
