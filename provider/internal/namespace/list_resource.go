package namespace

import (
	"github.com/hashicorp/terraform-plugin-framework/list"
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/listing"
)

// NewListResource lists the namespaces of the hub that can be managed.
func NewListResource() list.ListResource {
	return listing.New(listing.Kind[*corev1.Namespace]{
		Type: "namespace", Plural: "namespaces", Objects: &corev1.NamespaceList{},
		About: "Those of managed clusters, of Kubernetes and of the hub itself can't be managed and are never listed.",
		Adopt: func(object *corev1.Namespace) (crud.Model, error) { return importNamespace(object), nil },
		Is:    func(object *corev1.Namespace) bool { return refused(object) == nil },
	})
}
