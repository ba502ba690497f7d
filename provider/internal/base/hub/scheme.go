package hub

import (
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/kinds"
)

// NewScheme has the kinds that the provider handles and no others: all of
// Kubernetes' own would add a third to the binary.
func NewScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	builder := runtime.NewSchemeBuilder(
		corev1.AddToScheme,
		authenticationv1.AddToScheme,
		appsv1.AddToScheme,
		rbacv1.AddToScheme,
		certificatesv1.AddToScheme,
	)
	utilruntime.Must(builder.AddToScheme(scheme)) // fails only for a kind that is defined twice
	kinds.AddToScheme(scheme, kinds.Provider())
	return scheme
}
