package klusterlet

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
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
