package install

import (
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
)

// Cluster roles of the hub's controllers where they act for add-ons from templates.
const (
	// AddOnManagerRole may bind roles, as far as the API server lets it.
	AddOnManagerRole = "muster:addon-manager"
	// AddOnManagerUsualRole has the rights that templates may give away without being
	// granted them.
	AddOnManagerUsualRole = "muster:addon-manager:usual"
	// AddOnManagerAggregateRole has the rights of all cluster roles with the label
	// addon.AggregateToManagerLabel.
	AddOnManagerAggregateRole = cluster.AddOnManagerAggregateRole
)

// AddOnRoles are the rights with which the hub's controllers act for add-ons from
// templates. A template names roles to which its agents are bound, and nobody asks
// whether the template's author holds them: the usual rights, and what administrators
// grant to the service account addon.ManagerServiceAccount, are the limit. They grant by
// a binding, or by a label on a cluster role, as with upstream. The usual
// rights are those that upstream's add-on manager has from the start.
func AddOnRoles() (objects []client.Object) {
	for _, r := range []struct {
		name, group string
		rules       []rbacv1.PolicyRule
	}{
		{AddOnManagerRole, addon.ManagerGroup, []rbacv1.PolicyRule{rules(rbacv1.GroupName, "rolebindings", "get,list,watch,create,update,delete")}},
		{AddOnManagerUsualRole, addon.ManagerUsualGroup, usualRules()},
	} {
		objects = append(objects,
			&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: r.name}, Rules: r.rules},
			&rbacv1.ClusterRoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: r.name},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: r.name},
				Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: r.group}},
			})
	}
	return append(objects,
		&rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: AddOnManagerAggregateRole},
			AggregationRule: &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{
				{MatchLabels: map[string]string{addon.AggregateToManagerLabel: "true"}},
			}},
		},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: AddOnManagerAggregateRole},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: AddOnManagerAggregateRole},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: cluster.HubNamespace, Name: addon.ManagerServiceAccount}},
		})
}

func usualRules() []rbacv1.PolicyRule {
	const read = "get,list,watch"
	return []rbacv1.PolicyRule{
		rules("", "configmaps,events", read+",create,update,delete,deletecollection,patch"),
		rules("", "pods", "get"),
		rules("apps", "replicasets", "get"),
		rules("coordination.k8s.io", "leases", read+",create,update,patch"),
		rules("authorization.k8s.io", "subjectaccessreviews", "get,create"),
		rules(cluster.GroupName, "managedclusters,placements,placementdecisions", read),
		rules(addon.GroupName, "managedclusteraddons/finalizers,clustermanagementaddons/finalizers", "update"),
		rules(addon.GroupName, "managedclusteraddons/status,clustermanagementaddons/status", "update,patch"),
		rules(addon.GroupName, "clustermanagementaddons", read+",patch"),
		rules(addon.GroupName, "managedclusteraddons", read+",create,update,delete"),
		rules(addon.GroupName, "addontemplates,addondeploymentconfigs", read),
		rules(work.GroupName, "manifestworks", read+",create,update,delete,patch"),
		rules("certificates.k8s.io", "certificatesigningrequests", read+",create"),
		rules("certificates.k8s.io", "certificatesigningrequests/approval,certificatesigningrequests/status", "update"),
		rules("certificates.k8s.io", "signers", "approve,sign"),
	}
}

// rules allow verbs on resources, both separated by commas.
func rules(group, resources, verbs string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: strings.Split(resources, ","), Verbs: strings.Split(verbs, ",")}
}
