// Package api brings together the kinds of the wire: one call adds them all to
// a scheme.
package api

import (
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	aboutv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/about/v1alpha1"
	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	addonv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1beta1"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	multiclusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/multicluster/v1alpha1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

// AddToScheme teaches a scheme every kind of the wire.
func AddToScheme(scheme *runtime.Scheme) error {
	return builder.AddToScheme(scheme)
}

var builder = runtime.NewSchemeBuilder(
	clusterv1.AddToScheme,
	clusterv1alpha1.AddToScheme,
	clusterv1beta1.AddToScheme,
	clusterv1beta2.AddToScheme,
	workv1.AddToScheme,
	workv1alpha1.AddToScheme,
	addonv1alpha1.AddToScheme,
	addonv1beta1.AddToScheme,
	multiclusterv1alpha1.AddToScheme,
	aboutv1alpha1.AddToScheme,
)

// NewScheme is a scheme with every kind of the wire and Kubernetes' own kinds.
func NewScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(AddToScheme(scheme))
	return scheme
}
