package clusterimport

import (
	"github.com/hashicorp/terraform-plugin-framework/list"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/listing"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// NewListResource lists cluster imports.
func NewListResource() list.ListResource {
	return listing.New(listing.Kind[*v1alpha1.ClusterImport]{
		Type: "cluster_import", Plural: "cluster imports", Objects: &v1alpha1.ClusterImportList{}, Needs: hub.ImportNeeds,
		Cluster:  func(object *v1alpha1.ClusterImport) string { return object.Name },
		Adopt:    func(object *v1alpha1.ClusterImport) (crud.Model, error) { return importImport(object), nil },
		Describe: describe,
	})
}

func describe(object *v1alpha1.ClusterImport) string {
	if current(object, muster.ConditionJoined, metav1.ConditionTrue) {
		return "joined"
	}
	return "not joined"
}
