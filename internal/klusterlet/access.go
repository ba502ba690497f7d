package klusterlet

import rbacv1 "k8s.io/api/rbac/v1"

// userAccessFlag has the agent let users of the hub into the cluster.
const userAccessFlag = "user-access"

// accessRBAC is what user access needs beside the agent's other rights.
func (o *Options) accessRBAC() []Object {
	return []Object{o.clusterRole(AccessRole, nil, accessRules()), o.clusterRoleBinding(AccessRole)}
}

// accessRules let the agent make certificate requests for users and approve those
// that it made. Who may approve for this signer can become anybody in the cluster, so
// these rights are only given where the cluster's owner asks for user access.
func accessRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"certificatesigningrequests"}, Verbs: []string{"get", "list", "watch", "create", "delete"}},
		{APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"certificatesigningrequests/approval"}, Verbs: []string{"update"}},
		{APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"signers"}, ResourceNames: []string{"kubernetes.io/kube-apiserver-client"}, Verbs: []string{"approve"}},
	}
}
