package access

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// power is a right that, in a whole cluster, makes its holder another user of it.
type power struct {
	verbs, groups, resources []string
	// named says that the right also counts when it is limited to some names, if one
	// of them is a user's of muster or of Kubernetes.
	named bool
}

// write are the verbs that bring content into the cluster.
func write() []string { return []string{"create", "update", "patch"} }

// powers are these rights: to act as another account, to get its token or
// certificate, to run a program in a pod of any account, and to give rights.
func powers() []power {
	core, apps, batch := []string{""}, []string{"apps"}, []string{"batch"}
	return []power{
		{[]string{"impersonate"}, core, []string{"users", "groups", "serviceaccounts"}, true},
		{[]string{"create"}, core, []string{"serviceaccounts/token"}, true},
		{[]string{"approve", "sign"}, []string{"certificates.k8s.io"}, []string{"signers"}, true},
		{[]string{"bind", "escalate"}, []string{rbacv1.GroupName}, []string{"roles", "clusterroles"}, false},
		{write(), core, []string{"pods", "replicationcontrollers", "secrets"}, false},
		{[]string{"create", "get"}, core, []string{"pods/exec", "pods/attach", "nodes/proxy"}, false},
		{[]string{"update", "patch"}, core, []string{"pods/ephemeralcontainers"}, false},
		{write(), apps, []string{"daemonsets", "deployments", "replicasets", "statefulsets"}, false},
		{write(), batch, []string{"cronjobs", "jobs"}, false},
		{write(), []string{"admissionregistration.k8s.io"}, []string{
			"mutatingadmissionpolicies", "mutatingadmissionpolicybindings", "mutatingwebhookconfigurations",
		}, false},
	}
}

// ActsAsOthers lists, of rules that hold in a whole cluster, the rights by which
// their holder can act as any other user of the cluster, each as in "create
// serviceaccounts/token". In a namespace of its own the same rights reach nobody else:
// the accounts of users are elsewhere.
func ActsAsOthers(rules []rbacv1.PolicyRule) (rights []string) {
	for _, p := range powers() {
		for _, verb := range p.verbs {
			for _, resource := range p.resources {
				if slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool { return p.in(r, verb, resource) }) {
					rights = append(rights, verb+" "+resource)
				}
			}
		}
	}
	return rights
}

// ReadsAllSecrets reports whether rules that hold in a whole cluster let their holder
// read its Secrets, some of which may hold tokens of other accounts.
func ReadsAllSecrets(rules []rbacv1.PolicyRule) bool {
	read := power{verbs: []string{"get", "list", "watch"}, groups: []string{""}}
	return slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool {
		return slices.ContainsFunc(read.verbs, func(verb string) bool { return read.in(r, verb, "secrets") })
	})
}

// in reports whether a rule gives a power by a verb on a resource.
func (p power) in(r rbacv1.PolicyRule, verb, resource string) bool {
	has := func(list []string, value string) bool {
		return slices.Contains(list, value) || slices.Contains(list, rbacv1.VerbAll)
	}
	_, subresource, of := strings.Cut(resource, "/")
	if !has(r.Verbs, verb) || !has(r.APIGroups, p.groups[0]) ||
		!has(r.Resources, resource) && (!of || !slices.Contains(r.Resources, "*/"+subresource)) {
		return false
	}
	if len(r.ResourceNames) == 0 {
		return true
	}
	return p.named && slices.ContainsFunc(r.ResourceNames, ofUsers)
}

// ofUsers reports whether a name is that of a user, group, account or signer by which
// users come into a cluster, or that of one of Kubernetes.
func ofUsers(name string) bool {
	return slices.ContainsFunc([]string{userPrefix, keyPrefix, accountPrefix, systemPrefix, "kubernetes.io/", "*"},
		func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}
