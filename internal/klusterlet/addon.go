package klusterlet

import (
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// addOns are the namespace that add-ons are in unless they say otherwise, and what the
// agent may do there. An owner who narrows WorkRole, and has add-ons in another
// namespace, binds the ClusterRole cluster.AddOnRole to the agent there.
func (o *Options) addOns() []Object {
	objects := []Object{o.clusterRole(cluster.AddOnRole, nil, addOnRules()), &rbacv1.RoleBinding{
		TypeMeta:   typeMeta("RoleBinding"),
		ObjectMeta: o.meta(addon.DefaultInstallNamespace, cluster.AddOnRole),
		Subjects:   o.subjects(),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: cluster.AddOnRole},
	}}
	if o.Namespace == addon.DefaultInstallNamespace {
		return objects
	}
	return append([]Object{&corev1.Namespace{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: o.meta("", addon.DefaultInstallNamespace),
	}}, objects...)
}

// addOnRules let the agent keep the credentials of add-ons in Secrets, and see their
// Leases. Kubernetes has no rights by label, so these are rights to all Secrets of the
// namespace: that is why they are given in single namespaces.
func addOnRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: append(read(), "create", "update", "delete")},
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: read()},
	}
}
