package hub

import (
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	multiclusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/multicluster/v1alpha1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

// newScheme has the kinds that the provider handles and no others: all of
// Kubernetes' own would add a third to the binary.
func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	builder := runtime.NewSchemeBuilder(
		corev1.AddToScheme,
		authenticationv1.AddToScheme,
		appsv1.AddToScheme,
		rbacv1.AddToScheme,
		certificatesv1.AddToScheme,
		clusterv1.AddToScheme,
		clusterv1alpha1.AddToScheme,
		clusterv1beta1.AddToScheme,
		clusterv1beta2.AddToScheme,
		workv1.AddToScheme,
		workv1alpha1.AddToScheme,
		multiclusterv1alpha1.AddToScheme,
	)
	utilruntime.Must(builder.AddToScheme(scheme)) // fails only for a kind that is defined twice
	return scheme
}
