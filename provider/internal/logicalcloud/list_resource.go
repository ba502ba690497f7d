package logicalcloud

import (
	"github.com/hashicorp/terraform-plugin-framework/list"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/listing"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// NewListResource lists logical clouds.
func NewListResource() list.ListResource {
	return listing.New(listing.Kind[*v1alpha1.LogicalCloud]{
		Type: "logical_cloud", Plural: "logical clouds", Objects: &v1alpha1.LogicalCloudList{}, Needs: hub.AccessNeeds,
		NamespaceAttribute: "namespace",
		Adopt:              func(object *v1alpha1.LogicalCloud) (crud.Model, error) { return importCloud(object), nil },
		Describe:           func(object *v1alpha1.LogicalCloud) string { return "namespace " + object.Spec.Namespace.Name },
	})
}
