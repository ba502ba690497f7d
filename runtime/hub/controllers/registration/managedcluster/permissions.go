package managedcluster

import (
	"maps"

	certificatesv1 "k8s.io/api/certificates/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
)

// permissions are the objects that give a cluster's agents their rights.
type permissions struct {
	// extra labels are on every object.
	extra map[string]string
}

// clusterRole is what a cluster's agents may do outside their namespace.
func (p permissions) clusterRole(name string, accepted bool) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: cluster.RoleName(name), Labels: p.labels(name)}, Rules: Rules(name, accepted)}
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

func (p permissions) clusterRoleBinding(name string) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: cluster.RoleName(name), Labels: p.labels(name)},
		RoleRef:    clusterRoleRef(cluster.RoleName(name)),
		Subjects:   subjects(name),
	}
}

func (p permissions) registrationBinding(name string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: cluster.RegistrationBindingName(name), Labels: p.labels(name)},
		RoleRef:    clusterRoleRef(cluster.RegistrationRole),
		Subjects:   subjects(name),
	}
}

// workBinding has a finalizer, so that the agent keeps its access to works
// until it has cleaned up behind the last of them.
func (p permissions) workBinding(name string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: name, Name: cluster.WorkBindingName(name), Labels: p.labels(name),
			Finalizers: []string{work.ManifestWorkFinalizer},
		},
		RoleRef:  clusterRoleRef(cluster.WorkRole),
		Subjects: subjects(name),
	}
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

func (p permissions) labels(name string) map[string]string {
	labels := map[string]string{}
	maps.Copy(labels, p.extra)
	labels[cluster.NameLabel] = name
	return labels
}
