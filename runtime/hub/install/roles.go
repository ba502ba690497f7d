package install

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
)

// Cluster roles of user access, to be bound in a tenant's namespace. Those of
// Kubernetes, admin and view, contain the administrator's and the viewer's.
const (
	// AccessUserRole lets somebody ask for access to the namespace's clouds.
	AccessUserRole = "muster:access-user"
	// CloudAdminRole lets somebody make clouds as well. Which roles they may grant
	// is up to the verb bind on accessroles.
	CloudAdminRole = "muster:cloud-admin"
	// AccessTunnelRole lets somebody who has access to a cluster reach it through the hub.
	AccessTunnelRole = "muster:access-tunnel"
	// AccessViewRole lets somebody see both.
	AccessViewRole = "muster:access-view"
)

// WorkPreviewRole lets somebody preview works in clusters, as far as that user may write
// the works themselves. Who has it in a namespace reads the previews of others there,
// with their manifests.
const WorkPreviewRole = "muster:work-preview"

// accessRoles are the roles of user access.
func accessRoles() []client.Object {
	const clouds, requests, read = "logicalclouds", "accessrequests", "get,list,watch"
	rule := func(resources, verbs string) rbacv1.PolicyRule { return rules(muster.GroupName, resources, verbs) }
	kubeconfig := rule("logicalclouds/kubeconfig", "get")
	// By these a user finds the clusters of a cloud.
	decisions := rules(cluster.GroupName, "placementdecisions", read)
	return []client.Object{
		clusterRole(AccessTunnelRole, "", rule(requests, muster.VerbTunnel)),
		clusterRole(AccessViewRole, "view", rule("logicalclouds,accessrequests", read)),
		clusterRole(AccessUserRole, "", rule(clouds, read+","+muster.VerbUse), kubeconfig, rule(requests, read+",create,delete"), decisions),
		clusterRole(CloudAdminRole, "admin",
			rule(clouds, read+",create,update,patch,delete,deletecollection,"+muster.VerbUse), kubeconfig, decisions,
			rule(requests, read+",create,delete,deletecollection")),
	}
}

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
func AddOnRoles() []client.Object {
	return []client.Object{
		clusterRole(AddOnManagerRole, "", rules(rbacv1.GroupName, "rolebindings", "get,list,watch,create,update,delete")),
		bound(AddOnManagerRole, AddOnManagerRole, group(addon.ManagerGroup)),
		clusterRole(AddOnManagerUsualRole, "", usualRules()...),
		bound(AddOnManagerUsualRole, AddOnManagerUsualRole, group(addon.ManagerUsualGroup)),
		&rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: AddOnManagerAggregateRole},
			AggregationRule: &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{
				{MatchLabels: map[string]string{addon.AggregateToManagerLabel: "true"}},
			}},
		},
		bound(AddOnManagerAggregateRole, AddOnManagerAggregateRole, account(cluster.HubNamespace, addon.ManagerServiceAccount)),
	}
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

// rules allow verbs on resources, both separated by commas; on those of names, if there are
// any.
func rules(group, resources, verbs string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: strings.Split(resources, ","), ResourceNames: names, Verbs: strings.Split(verbs, ",")}
}

// clusterRole is a cluster role, which the role aggregate of Kubernetes contains, if any.
func clusterRole(name, aggregate string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
	r := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
	if aggregate != "" {
		r.Labels = map[string]string{rbacv1.GroupName + "/aggregate-to-" + aggregate: "true"}
	}
	return r
}

// bound is a binding of a cluster role.
func bound(name, role string, to ...rbacv1.Subject) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: to,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
	}
}

// boundRole are a role of a namespace, and its binding.
func boundRole(namespace, name string, to []rbacv1.Subject, rules ...rbacv1.PolicyRule) []client.Object {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
	return []client.Object{
		&rbacv1.Role{ObjectMeta: meta, Rules: rules},
		&rbacv1.RoleBinding{ObjectMeta: meta, Subjects: to, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name}},
	}
}

func group(name string) rbacv1.Subject {
	return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: name}
}

func account(namespace, name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}
}

// FleetViewRole lets somebody see the fleet: what muster status, muster explain and the
// hub's web page show. It reads works with their manifests, which may hold secrets, so
// nothing binds it, and no role of Kubernetes contains it.
const FleetViewRole = "muster:fleet-view"

func fleetViewRole() client.Object {
	const read = "get,list,watch"
	return clusterRole(FleetViewRole, "",
		rules(cluster.GroupName, "managedclusters,managedclustersets,managedclustersetbindings,placements,"+
			"placementdecisions,addonplacementscores", read),
		rules(work.GroupName, "manifestworks,manifestworkreplicasets", read),
		rules(addon.GroupName, "clustermanagementaddons,managedclusteraddons", read),
		rules(muster.GroupName, "logicalclouds,accessrequests,clusterimports,workoverrides", read),
		rules("certificates.k8s.io", "certificatesigningrequests", read),
		rules("coordination.k8s.io", "leases", read), rules("", "events,namespaces", read))
}

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
	const imports, read = "clusterimports", "get,list,watch"
	return []client.Object{
		clusterRole(ImportViewRole, "view", rules(muster.GroupName, imports, read)),
		clusterRole(ImportAdminRole, "",
			rules(muster.GroupName, imports, read+",create,update,patch,delete,deletecollection"), rules(cluster.GroupName, "managedclusters", "create")),
		&rbacv1.Role{
			ObjectMeta: metav1.ObjectMeta{Namespace: muster.ImportNamespace, Name: ImportKubeconfigsRole},
			Rules:      []rbacv1.PolicyRule{rules(corev1.GroupName, "secrets", "get,create,update,patch,delete")},
		},
	}
}
