package managedcluster

import (
	"maps"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
)

// grants are the objects that give a cluster's agents their rights, as they are
// wanted.
type grants struct {
	namespace *corev1.Namespace
	// clusterRole is what the agents may do outside their namespace.
	clusterRole         *rbacv1.ClusterRole
	clusterRoleBinding  *rbacv1.ClusterRoleBinding
	registrationBinding *rbacv1.RoleBinding
	// workBinding has a finalizer, so that the agents keep their access to works
	// until they have cleaned up behind the last of them.
	workBinding *rbacv1.RoleBinding
}

// newGrants are the grants of the cluster of this name. extra labels are on every
// object.
func newGrants(name string, accepted bool, extra map[string]string) grants {
	labels := map[string]string{}
	maps.Copy(labels, extra)
	labels[cluster.NameLabel] = name
	agents := subjects(name)
	g := grants{
		namespace:   &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}},
		clusterRole: &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: cluster.RoleName(name), Labels: labels}, Rules: Rules(name, accepted)},
		clusterRoleBinding: &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: cluster.RoleName(name), Labels: labels},
			RoleRef:    clusterRoleRef(cluster.RoleName(name)),
			Subjects:   agents,
		},
		registrationBinding: &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: cluster.RegistrationBindingName(name), Labels: labels},
			RoleRef:    clusterRoleRef(cluster.RegistrationRole),
			Subjects:   agents,
		},
		workBinding: &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: cluster.WorkBindingName(name), Labels: labels},
			RoleRef:    clusterRoleRef(cluster.WorkRole),
			Subjects:   agents,
		},
	}
	g.workBinding.Finalizers = []string{work.ManifestWorkFinalizer}
	return g
}

// Rules are what a cluster's agents may do outside their namespace. Those of a
// denied cluster may only see that they were denied.
func Rules(name string, accepted bool) []rbacv1.PolicyRule {
	if !accepted {
		return []rbacv1.PolicyRule{
			rule(cluster.GroupName, "managedclusters", name, "get", "list", "watch"),
		}
	}
	return []rbacv1.PolicyRule{
		rule(certificatesv1.GroupName, "certificatesigningrequests", "", "create", "get", "list", "watch"),
		rule(cluster.RegisterGroupName, "managedclusters/clientcertificates", "", "renew"),
		rule(cluster.GroupName, "managedclusters", name, "get", "list", "update", "watch"),
		rule(cluster.GroupName, "managedclusters/status", name, "patch", "update"),
	}
}

func rule(group, resource, name string, verbs ...string) rbacv1.PolicyRule {
	r := rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
	if name != "" {
		r.ResourceNames = []string{name}
	}
	return r
}

func clusterRoleRef(name string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}
}

// subjects are a cluster's agents. The second group is for identity providers
// that forbid names with the prefix "system:".
func subjects(name string) []rbacv1.Subject {
	return []rbacv1.Subject{
		{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: cluster.Group(name)},
		{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: cluster.GroupWithoutPrefix(name)},
	}
}
