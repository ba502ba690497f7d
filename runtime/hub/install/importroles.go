package install

import (
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
)

// Roles of cluster imports.
const (
	// ImportViewRole lets somebody see imports, and no kubeconfig. Kubernetes' role view
	// contains it.
	ImportViewRole = "muster:import-view"
	// ImportAdminRole lets somebody make imports of new clusters. The rights to their
	// cluster sets, to accept clusters, and to the kubeconfigs are given apart.
	ImportAdminRole = "muster:import-admin"
	// ImportKubeconfigsRole, in the namespace of the kubeconfigs, lets somebody hand
	// them in, and read those of others there.
	ImportKubeconfigsRole = "muster:import-kubeconfigs"
)

// importRoles are the roles of cluster imports.
func importRoles() []client.Object {
	imports := func(verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{muster.GroupName}, Resources: []string{"clusterimports"}, Verbs: verbs}
	}
	return []client.Object{
		&rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: ImportViewRole, Labels: map[string]string{rbacv1.GroupName + "/aggregate-to-view": "true"}},
			Rules:      []rbacv1.PolicyRule{imports("get", "list", "watch")},
		},
		&rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: ImportAdminRole},
			Rules: []rbacv1.PolicyRule{
				imports("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"),
				{APIGroups: []string{cluster.GroupName}, Resources: []string{"managedclusters"}, Verbs: []string{"create"}},
			},
		},
		&rbacv1.Role{
			ObjectMeta: metav1.ObjectMeta{Namespace: muster.ImportNamespace, Name: ImportKubeconfigsRole},
			Rules: []rbacv1.PolicyRule{
				{APIGroups: []string{corev1.GroupName}, Resources: []string{"secrets"}, Verbs: []string{"get", "create", "update", "patch", "delete"}},
			},
		},
	}
}
