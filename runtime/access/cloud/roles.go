package cloud

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/access"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// maxRoleName is how long the name of a role may be before its end becomes a hash.
const maxRoleName = 200

// role is what grants give in a cluster, under one name.
type role struct {
	name  string
	scope v1alpha1.GrantScope
	rules []rbacv1.PolicyRule
	// grants are those that give it.
	grants []v1alpha1.Grant
}

// rolesOf are the roles of a cloud in the order of its grants, and what is wrong
// with some of them. Such a role stands empty and is bound to nobody: as long as it
// is in the work, its application means that the rights are gone.
func rolesOf(c *v1alpha1.LogicalCloud, catalogue map[string]*v1alpha1.AccessRole) (roles []*role, problems []string) {
	id := muster.CloudID(c.Namespace, c.Name)
	for _, g := range c.Spec.Grants {
		rules, problem := rulesOf(g, catalogue)
		if problem != "" {
			if !slices.Contains(problems, problem) {
				problems = append(problems, problem)
			}
			g.Users, g.Groups = nil, nil
		}
		name, scope := roleName(id, g), v1alpha1.ScopeNamespace
		if g.Scope == v1alpha1.ScopeCluster {
			scope = g.Scope
		} else {
			rules = slices.DeleteFunc(slices.Clone(rules), func(r rbacv1.PolicyRule) bool { return len(r.NonResourceURLs) > 0 }) // a Role can't have them
		}
		at := slices.IndexFunc(roles, func(r *role) bool { return r.name == name && r.scope == scope })
		if at < 0 {
			roles = append(roles, &role{name: name, scope: scope, rules: rules})
			at = len(roles) - 1
		}
		roles[at].grants = append(roles[at].grants, g)
	}
	return roles, problems
}

// rulesOf are the rules that a grant gives.
func rulesOf(g v1alpha1.Grant, catalogue map[string]*v1alpha1.AccessRole) (rules []rbacv1.PolicyRule, problem string) {
	if g.Role == "" {
		return g.Rules, ""
	}
	found, ok := catalogue[g.Role]
	switch {
	case !ok:
		return nil, fmt.Sprintf("there is no AccessRole %q", g.Role)
	case g.Scope == v1alpha1.ScopeCluster && !found.ClusterScopeAllowed:
		return nil, fmt.Sprintf("the AccessRole %q may not be granted with the scope Cluster", g.Role)
	}
	return found.Rules, ""
}

// roleName names the role of a grant. In the cloud's namespace the role's own name
// suffices; roles of the whole cluster say whose they are.
func roleName(cloudID string, g v1alpha1.Grant) string {
	name := "muster:"
	if g.Scope == v1alpha1.ScopeCluster {
		name += cloudID + ":"
	}
	if g.Role == "" {
		return name + "rules-" + shortHash(g.Rules)
	}
	if name += g.Role; len(name) > maxRoleName {
		return name[:maxRoleName] + "-" + shortHash(g.Role)
	}
	return name
}

func shortHash(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		text = []byte(err.Error()) // rules and names can be marshalled
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:16]
}

// holders are the keys that have a role.
func (r *role) holders(keys []Key) []Key {
	return slices.DeleteFunc(slices.Clone(keys), func(k Key) bool {
		return !slices.ContainsFunc(r.grants, func(g v1alpha1.Grant) bool { return names(g, k.User, k.Groups) })
	})
}

// subjects are the groups of keys, and their service accounts in a namespace, if there
// is one.
func subjects(keys []Key, accounts string) []any {
	out := make([]any, 0, len(keys)) // not nil: a binding of nobody says so
	for _, k := range keys {
		out = append(out, map[string]any{"kind": rbacv1.GroupKind, "apiGroup": rbacv1.GroupName, "name": access.KeyGroup(k.Hash)})
		if k.Token && accounts != "" {
			out = append(out, map[string]any{"kind": rbacv1.ServiceAccountKind, "namespace": accounts, "name": access.ServiceAccount(k.Hash)})
		}
	}
	return out
}

// Problems say which grants of a cloud can't be given.
func Problems(c *v1alpha1.LogicalCloud, catalogue map[string]*v1alpha1.AccessRole) []string {
	_, problems := rolesOf(c, catalogue)
	return problems
}
