package manifestwork

import (
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// workList lists manifest works.
func workList() *crud.List[*workv1.ManifestWork] {
	return &crud.List[*workv1.ManifestWork]{
		Plural: "manifest works", Objects: &workv1.ManifestWorkList{},
		About: "Works of replica sets and of add-ons count as made by a controller.",
		Generated: func(object *workv1.ManifestWork) bool {
			return object.Labels[work.ReplicaSetLabel] != "" || object.Labels[cluster.AddOnNameLabel] != ""
		},
		Cluster: func(object *workv1.ManifestWork) string { return object.Namespace },
		Describe: func(object *workv1.ManifestWork) string {
			return crud.Count(len(object.Spec.Workload.Manifests), "object")
		},
	}
}
