// Package manager makes the controller-runtime manager that the hub's
// controllers share.
package manager

import (
	"fmt"
	"net/http"

	"github.com/go-logr/logr"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/muster-fleet/terraform-provider-muster/internal/restmapper"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// New makes a manager that needs no discovery and whose cache holds, of
// Kubernetes' own kinds, only what belongs to a managed cluster.
func New(c *rest.Config, log logr.Logger) (manager.Manager, error) {
	ours, err := labels.Parse(cluster.NameLabel + ",!" + cluster.AddOnNameLabel)
	if err != nil {
		return nil, err
	}
	byCluster := cache.ByObject{Label: ours}
	// Of the Secrets only bootstrap tokens are watched.
	tokens := cache.ByObject{
		Namespaces: map[string]cache.Config{metav1.NamespaceSystem: {}},
		Field:      fields.OneTermEqualSelector("type", string(corev1.SecretTypeBootstrapToken)),
	}
	m, err := manager.New(c, manager.Options{
		Scheme:         api.NewScheme(),
		Logger:         log,
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return restmapper.Static(), nil },
		Metrics:        server.Options{BindAddress: "0"},
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(),
			ByObject: map[client.Object]cache.ByObject{
				&corev1.Namespace{}:                         byCluster,
				&coordinationv1.Lease{}:                     byCluster,
				&certificatesv1.CertificateSigningRequest{}: byCluster,
				&rbacv1.Role{}:                              byCluster,
				&rbacv1.RoleBinding{}:                       byCluster,
				&rbacv1.ClusterRole{}:                       byCluster,
				&rbacv1.ClusterRoleBinding{}:                byCluster,
				&corev1.Secret{}:                            tokens,
			},
		},
		// Secrets and config maps are read where they are needed: caching all of
		// them would keep every secret of the hub in memory.
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}}}},
		Controller: config.Controller{
			// Several managers may live in one process.
			SkipNameValidation: ptr.To(true),
		},
	})
	if err != nil {
		return nil, fmt.Errorf("set up the controllers: %w", err)
	}
	return m, nil
}
