package registration

import (
	"errors"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	wire "github.com/muster-fleet/terraform-provider-muster/runtime/addon/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
)

// permission is a role that agents of an add-on get in a namespace of the hub.
type permission struct {
	namespace string
	role      rbacv1.RoleRef
}

// permissions are the roles that a template asks for: own are those of the agent of a
// cluster in the cluster's namespace, shared those that the agents of all clusters have
// in one namespace. What the template says wrong is left out and in the error.
func permissions(t *v1alpha1.AddOnTemplate, clusterName string) (own, shared []permission, problem error) {
	var problems []error
	for i, r := range t.Spec.Registration {
		if r.Type != v1alpha1.RegistrationTypeKubeClient || r.KubeClient == nil {
			continue
		}
		for j, p := range r.KubeClient.HubPermissions {
			at := fmt.Sprintf("spec.registration[%d].kubeClient.hubPermissions[%d] of the AddOnTemplate %s", i, j, t.Name)
			switch {
			case p.Type == v1alpha1.HubPermissionsBindingCurrentCluster && p.CurrentCluster == nil:
				problems = append(problems, fmt.Errorf("%s is of the type CurrentCluster and lacks currentCluster.clusterRoleName", at))
			case p.Type == v1alpha1.HubPermissionsBindingSingleNamespace && p.SingleNamespace == nil:
				problems = append(problems, fmt.Errorf("%s is of the type SingleNamespace and lacks singleNamespace with namespace and roleRef", at))
			case p.Type == v1alpha1.HubPermissionsBindingCurrentCluster:
				role := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: p.CurrentCluster.ClusterRoleName}
				own = add(own, permission{namespace: clusterName, role: role})
			case p.Type == v1alpha1.HubPermissionsBindingSingleNamespace:
				s := p.SingleNamespace
				role := rbacv1.RoleRef{APIGroup: s.RoleRef.APIGroup, Kind: s.RoleRef.Kind, Name: s.RoleRef.Name}
				shared = add(shared, permission{namespace: s.Namespace, role: role})
			}
		}
	}
	return own, shared, errors.Join(problems...)
}

func add(to []permission, p permission) []permission {
	if slices.Contains(to, p) {
		return to
	}
	return append(to, p)
}

// subjects are who the agent of an add-on in a cluster is on the hub, and nobody else:
// the group of the agents of all clusters, which upstream binds as well, would give
// each of them rights in the namespaces of all others. There are none as long as that
// is not known.
func subjects(a *v1alpha1.ManagedClusterAddOn) []rbacv1.Subject {
	group, account := sharedSubjects(a.Namespace, a.Name)
	switch {
	case a.Status.KubeClientDriver != wire.DriverToken:
		user := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: wire.User(a.Namespace, a.Name, wire.TemplateAgent(a.Name))}
		return []rbacv1.Subject{user, group}
	case meta.IsStatusConditionTrue(a.Status.Conditions, wire.ConditionTokenInfrastructureReady):
		return []rbacv1.Subject{account}
	}
	return nil // a service account of that name may be somebody else's
}

// sharedSubjects are how the agent in a cluster is named in a binding that the agents
// of all clusters share: one of the two, by the driver. Such a binding has to hold a
// fleet.
func sharedSubjects(clusterName, addOn string) (group, account rbacv1.Subject) {
	return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: wire.ClusterAddOnGroup(clusterName, addOn)},
		rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: wire.ServiceAccountUser(clusterName, addOn)}
}
