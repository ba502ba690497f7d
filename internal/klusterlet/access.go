package klusterlet

import (
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
)

// userAccessFlag has the agent let users of the hub into the cluster.
const userAccessFlag = "user-access"

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

// accessRules let the agent make certificate requests for users and approve those
// that it made, and get tokens of the service accounts that works make for users. Who may approve for this signer can become anybody in the cluster, so
// these rights are only given where the cluster's owner asks for user access.
func accessRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"certificatesigningrequests"}, Verbs: []string{"get", "list", "watch", "create", "delete"}},
		{APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"certificatesigningrequests/approval"}, Verbs: []string{"update"}},
		{APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"signers"}, ResourceNames: []string{"kubernetes.io/kube-apiserver-client"}, Verbs: []string{"approve"}},
		{APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, Verbs: []string{"create"}},
		{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, Verbs: []string{"delete"}},
	}
}
