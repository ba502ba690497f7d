package replicaset

import (
	"github.com/hashicorp/terraform-plugin-framework/list"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/listing"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

// NewListResource lists manifest work replica sets.
func NewListResource() list.ListResource {
	return listing.New(listing.Kind[*workv1alpha1.ManifestWorkReplicaSet]{
		Type: "manifest_work_replica_set", Plural: "manifest work replica sets", Objects: &workv1alpha1.ManifestWorkReplicaSetList{},
		NamespaceAttribute: "namespace",
		Adopt: func(object *workv1alpha1.ManifestWorkReplicaSet) (crud.Model, error) {
			m, err := importReplicaSet(object)
			return &m, err
		},
		Describe: func(object *workv1alpha1.ManifestWorkReplicaSet) string {
			return listing.Count(len(object.Spec.ManifestWorkTemplate.Workload.Manifests), "object")
		},
	})
}
