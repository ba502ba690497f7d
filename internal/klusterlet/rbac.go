package klusterlet

import (
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
)

func read() []string { return []string{"get", "list", "watch"} }

func write() []string { return append(read(), "create", "update", "patch", "delete") }

// rbac gives the agent three sets of rights, apart from one another, so that a
// cluster's owner can narrow what the hub may do (WorkRole) without breaking
// the agent.
func (o *Options) rbac() []Object {
	return []Object{
		o.role(o.namespaceRules()),
		o.roleBinding(),
		o.clusterRole(RegistrationRole, nil, registrationRules()),
		o.clusterRoleBinding(RegistrationRole),
		o.clusterRole(WorkRole, map[string]string{work.AggregateToWorkLabel: "true"}, workRules()),
		o.clusterRoleBinding(WorkRole),
	}
}

// namespaceRules are for the agent's own namespace, which holds its identity.
func (o *Options) namespaceRules() []rbacv1.PolicyRule {
	rules := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: write()},
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: write()},
		{APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch", "update"}},
	}
	if o.UserAccess {
		rules = append(rules, policyRules()...)
	}
	return rules
}

// registrationRules are what the agent needs to register, to report the
// cluster's state, and to check and account for works.
func registrationRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions"}, Verbs: []string{"get", "list", "watch", "create", "update", "patch"}},
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: read()},
		{APIGroups: []string{cluster.GroupName}, Resources: []string{"clusterclaims"}, Verbs: read()},
		{APIGroups: []string{"about.k8s.io"}, Resources: []string{"clusterproperties"}, Verbs: read()},
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get", "list", "watch", "create", "update", "patch"}},
		{APIGroups: []string{work.GroupName}, Resources: []string{"appliedmanifestworks", "appliedmanifestworks/status", "appliedmanifestworks/finalizers"}, Verbs: write()},
		{APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"subjectaccessreviews"}, Verbs: []string{"create"}},
		{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, Verbs: []string{"impersonate"}},
		{NonResourceURLs: []string{"/livez", "/healthz"}, Verbs: []string{"get"}},
	}
}

// workRules let works create anything: a fleet's works hold whatever its
// clusters are for, custom resources and RBAC included. Narrow them, or make
// works name an executor, where the hub shall not be all-powerful.
func workRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}},
		{NonResourceURLs: []string{"*"}, Verbs: []string{"*"}},
	}
}

func (o *Options) role(rules []rbacv1.PolicyRule) *rbacv1.Role {
	return &rbacv1.Role{
		TypeMeta:   typeMeta("Role"),
		ObjectMeta: o.meta(o.Namespace, NamespaceRole),
		Rules:      rules,
	}
}

func (o *Options) roleBinding() *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		TypeMeta:   typeMeta("RoleBinding"),
		ObjectMeta: o.meta(o.Namespace, NamespaceRole),
		Subjects:   o.subjects(),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: NamespaceRole},
	}
}

func (o *Options) clusterRole(name string, labels map[string]string, rules []rbacv1.PolicyRule) *rbacv1.ClusterRole {
	meta := o.meta("", name)
	for k, v := range labels {
		metav1.SetMetaDataLabel(&meta, k, v)
	}
	return &rbacv1.ClusterRole{TypeMeta: typeMeta("ClusterRole"), ObjectMeta: meta, Rules: rules}
}

func (o *Options) clusterRoleBinding(role string) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		TypeMeta:   typeMeta("ClusterRoleBinding"),
		ObjectMeta: o.meta("", role),
		Subjects:   o.subjects(),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
	}
}

func (o *Options) subjects() []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: o.Namespace, Name: ServiceAccount}}
}

func typeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
}

// userAccessFlag has the agent let users of the hub into the cluster.
const userAccessFlag = "user-access"

// tunnelsFlag is the agent's flag that takes users to the cluster through the hub. It needs
// no rights of its own.
const tunnelsFlag = "tunnels"

// accessRBAC is what user access needs beside the agent's other rights.
func (o *Options) accessRBAC() []Object {
	return []Object{o.clusterRole(AccessRole, nil, accessRules()), o.clusterRoleBinding(AccessRole)}
}

// policyRules let the agent read what the cluster's owner has decided about user
// access, and nothing else of the kind.
func policyRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{muster.PolicyConfigMap}, Verbs: read()},
	}
}

// accessRules let the agent make certificate requests for users and approve those that it
// made, and get tokens of the service accounts that works make for users. An agent that
// may approve for this signer can become any user of the cluster, so these rights are
// only given where the cluster's owner asks for user access.
func accessRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"certificatesigningrequests"}, Verbs: []string{"get", "list", "watch", "create", "delete"}},
		{APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"certificatesigningrequests/approval"}, Verbs: []string{"update"}},
		{APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"signers"}, ResourceNames: []string{"kubernetes.io/kube-apiserver-client"}, Verbs: []string{"approve"}},
		{APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, Verbs: []string{"create"}},
		{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, Verbs: []string{"delete"}},
	}
}

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
