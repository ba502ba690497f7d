package access

import (
	"github.com/hashicorp/terraform-plugin-framework/list"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// NewRequestListResource lists access requests with a certificate request.
func NewRequestListResource() list.ListResource {
	return crud.NewList(crud.List[*v1alpha1.AccessRequest]{
		Type: "access_request", Plural: "access requests", Objects: &v1alpha1.AccessRequestList{}, Needs: hub.AccessNeeds,
		About:              "Requests for tokens are not listed, as the resource makes none.",
		NamespaceAttribute: "namespace",
		Adopt:              func(object *v1alpha1.AccessRequest) (crud.Model, error) { return importRequest(object) },
		Is:                 func(object *v1alpha1.AccessRequest) bool { return object.Spec.Mode == v1alpha1.AccessCertificate },
		Cluster:            func(object *v1alpha1.AccessRequest) string { return object.Spec.ManagedCluster },
		Describe:           func(object *v1alpha1.AccessRequest) string { return object.Spec.User },
	})
}
