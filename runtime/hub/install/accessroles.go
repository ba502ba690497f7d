package install

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
)

// Cluster roles of user access, to be bound in a tenant's namespace. Those of
// Kubernetes, admin and view, contain the administrator's and the viewer's.
const (
	// AccessUserRole lets somebody ask for access to the namespace's clouds.
	AccessUserRole = "muster:access-user"
	// CloudAdminRole lets somebody make clouds as well. Which roles they may grant
	// is up to the verb bind on accessroles.
	CloudAdminRole = "muster:cloud-admin"
	// AccessViewRole lets somebody see both.
	AccessViewRole = "muster:access-view"
)

// accessRoles are the roles of user access.
func accessRoles() []client.Object {
	rule := func(resources []string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{muster.GroupName}, Resources: resources, Verbs: verbs}
	}
	read := []string{"get", "list", "watch"}
	clouds, requests := []string{"logicalclouds"}, []string{"accessrequests"}
	kubeconfig := rule([]string{"logicalclouds/kubeconfig"}, "get")
	// By these a user finds the clusters of a cloud.
	decisions := rbacv1.PolicyRule{APIGroups: []string{cluster.GroupName}, Resources: []string{"placementdecisions"}, Verbs: read}
	role := func(name, aggregate string, rules ...rbacv1.PolicyRule) client.Object {
		r := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
		if aggregate != "" {
			r.Labels = map[string]string{rbacv1.GroupName + "/aggregate-to-" + aggregate: "true"}
		}
		return r
	}
	return []client.Object{
		role(AccessViewRole, "view", rule([]string{"logicalclouds", "accessrequests"}, read...)),
		role(AccessUserRole, "", rule(clouds, append(read, muster.VerbUse)...), kubeconfig, rule(requests, append(read, "create", "delete")...), decisions),
		role(CloudAdminRole, "admin",
			rule(clouds, "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", muster.VerbUse), kubeconfig, decisions,
			rule(requests, "get", "list", "watch", "create", "delete", "deletecollection")),
	}
}
