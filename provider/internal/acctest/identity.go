package acctest

import (
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

// Identity makes a service account that may do what rules say and nothing else. It
// returns the provider block of a Terraform that acts as that account.
func (o *Outsider) Identity(name string, rules ...rbacv1.PolicyRule) string {
	o.T.Helper()
	const namespace = "default"
	account := &corev1.ServiceAccount{}
	account.Namespace, account.Name = namespace, name
	role := &rbacv1.ClusterRole{Rules: rules}
	role.Name = name
	binding := &rbacv1.ClusterRoleBinding{
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}},
	}
	binding.Name = name
	o.Apply(account)
	o.Apply(role)
	o.Apply(binding)
	ctx, cancel := o.Context()
	defer cancel()
	request := &authenticationv1.TokenRequest{}
	if err := o.Client.CreateSubresource(ctx, account, "token", request); err != nil {
		o.T.Fatal(err)
	}
	ca, err := o.Client.CAData()
	if err != nil {
		o.T.Fatal(err)
	}
	return fmt.Sprintf("provider \"muster\" {\n  host                   = %q\n  cluster_ca_certificate = %q\n  token "+
		"                 = %q\n}\n",
		o.Client.Host(), ca, request.Status.Token)
}
