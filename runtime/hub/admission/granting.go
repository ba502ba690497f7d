package admission

import (
	"context"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/warning"

	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	useraccess "github.com/muster-fleet/terraform-provider-muster/runtime/access"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// maxReviews is how many rights of inline rules are looked up one by one.
const maxReviews = 500

// shownRights is how many rights a message lists.
const shownRights = 3

// granting asks whether a user may give what a logical cloud gives.
type granting struct {
	*server
	who       user.Info
	namespace string
}

// check finds the rights that the user lacks for what a cloud says that it did not
// say before.
func (g granting) check(ctx context.Context, now, before *v1alpha1.LogicalCloudSpec) (refusals []string, errs field.ErrorList, err error) {
	spec := field.NewPath("spec")
	for i, grant := range now.Grants {
		if slices.ContainsFunc(before.Grants, func(o v1alpha1.Grant) bool { return covers(o, grant) }) {
			continue
		}
		path := spec.Child("grants").Index(i)
		rules, problem, err := g.role(ctx, grant, path)
		if err != nil {
			return nil, nil, err
		}
		if problem != nil {
			errs = append(errs, problem)
			continue
		}
		why := g.mayGrant(ctx, grant)
		if why == "" && grant.Scope == v1alpha1.ScopeCluster {
			why = g.mayLetActAsOthers(ctx, rules, path)
		}
		if why != "" {
			refusals = append(refusals, fmt.Sprintf("%s: user %q %s", path, g.who.GetName(), why))
		}
	}
	ns, was := now.Namespace, before.Namespace
	if ns.Existing == v1alpha1.ExistingAdopt && (was.Existing != ns.Existing || was.Name != ns.Name) && !g.may(ctx, g.who, authorizer.AttributesRecord{
		Verb: muster.VerbAdopt, APIGroup: muster.GroupName, Resource: muster.AdoptableNamespaces, Name: ns.Name,
	}) {
		refusals = append(refusals, fmt.Sprintf("%s: user %q may not take over namespaces that exist: the verb %s on %s %q is missing; use Refuse, or ask an administrator of the hub",
			spec.Child("namespace", "existing"), g.who.GetName(), muster.VerbAdopt, muster.AdoptableNamespaces, ns.Name))
	}
	return append(refusals, g.metadata(ctx, &ns, &was, spec.Child("namespace"))...), errs, nil
}

// metadata finds labels and annotations that are for administrators: those of
// Kubernetes, by which a namespace would escape the security of its pods.
func (g granting) metadata(ctx context.Context, now, before *v1alpha1.CloudNamespace, path *field.Path) (refusals []string) {
	for _, m := range []struct {
		child       string
		now, before map[string]string
	}{{"labels", now.Labels, before.Labels}, {"annotations", now.Annotations, before.Annotations}} {
		for _, key := range sortedKeys(m.now) {
			if old, had := m.before[key]; had && old == m.now[key] {
				continue
			}
			if _, administrators := reservedFor(key); administrators && !g.mayEscalate(ctx) {
				refusals = append(refusals, fmt.Sprintf("%s: user %q may not set keys of Kubernetes: the verb escalate on accessroles is missing; leave it out, or ask an administrator of the hub",
					path.Child(m.child).Key(key), g.who.GetName()))
			}
		}
	}
	return refusals
}

// covers reports whether a grant gives all that another one gives, to the same users
// and groups.
func covers(a, b v1alpha1.Grant) bool {
	subset := func(of, all []string) bool {
		return !slices.ContainsFunc(of, func(s string) bool { return !slices.Contains(all, s) })
	}
	return a.Role == b.Role && a.Scope == b.Scope && apiequality.Semantic.DeepEqual(a.Rules, b.Rules) && subset(b.Users, a.Users) && subset(b.Groups, a.Groups)
}

// role checks that the AccessRole of a grant exists, and may be granted so far. It
// returns the rules that the grant gives.
func (g granting) role(ctx context.Context, grant v1alpha1.Grant, path *field.Path) ([]rbacv1.PolicyRule, *field.Error, error) {
	if grant.Role == "" {
		return grant.Rules, nil, nil
	}
	object, err := g.objects.Resource(v1alpha1.GroupVersion.WithResource("accessroles")).Get(ctx, grant.Role, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		missing := field.NotFound(path.Child("role"), grant.Role)
		missing.Detail = "there is no AccessRole of this name; an administrator of the hub creates them"
		return nil, missing, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read the AccessRole %s: %w", grant.Role, err)
	}
	var role v1alpha1.AccessRole
	if err := decode(object, &role); err != nil {
		return nil, nil, err
	}
	if grant.Scope == v1alpha1.ScopeCluster && !role.ClusterScopeAllowed {
		return nil, field.Invalid(path.Child("scope"), grant.Scope,
			fmt.Sprintf("the AccessRole %q is for one namespace; use the scope Namespace, or a role with clusterScopeAllowed", grant.Role)), nil
	}
	return role.Rules, nil, nil
}

// mayLetActAsOthers says why the user may not grant rules in whole clusters by which
// users of the cloud could act as each other; nothing if the user may. Who may give
// any rights may give these, and is warned.
func (g granting) mayLetActAsOthers(ctx context.Context, rules []rbacv1.PolicyRule, path *field.Path) string {
	rights := useraccess.ActsAsOthers(rules)
	if len(rights) > 0 && !g.mayEscalate(ctx) {
		return fmt.Sprintf("may not let users act as others: in whole clusters %s makes its holder any other user of the cluster; "+
			"use the scope Namespace, leave it out, or ask an administrator of the hub for the verb escalate on accessroles", text.List(rights, shownRights))
	}
	warnOfPowers(ctx, rules, path)
	return ""
}

// warnOfPowers warns of rules that reach, in whole clusters, what is other users'.
func warnOfPowers(ctx context.Context, rules []rbacv1.PolicyRule, path *field.Path) {
	if rights := useraccess.ActsAsOthers(rules); len(rights) > 0 {
		warning.AddWarning(ctx, "", fmt.Sprintf("%s: in whole clusters %s makes its holder any other user of the cluster, those of other logical clouds included: "+
			"leave it out, or grant it to administrators of the clusters alone", path, text.List(rights, shownRights)))
	} else if useraccess.ReadsAllSecrets(rules) {
		warning.AddWarning(ctx, "", fmt.Sprintf("%s: in whole clusters the right to read Secrets reaches those of all namespaces, the agent's and tokens of other accounts included: "+
			"name the Secrets, or grant it to administrators of the clusters alone", path))
	}
}

// mayGrant says why the user may not give a grant; nothing if the user may.
func (g granting) mayGrant(ctx context.Context, grant v1alpha1.Grant) string {
	role := func(verb string) bool {
		return g.may(ctx, g.who, authorizer.AttributesRecord{Verb: verb, APIGroup: muster.GroupName, Resource: "accessroles", Name: grant.Role})
	}
	if grant.Scope == v1alpha1.ScopeCluster && !role(muster.VerbGrantClusterScope) {
		return fmt.Sprintf("may not grant rights in whole clusters: the verb %s on accessroles %q is missing; use the scope Namespace, or ask an administrator of the hub", muster.VerbGrantClusterScope, grant.Role)
	}
	if grant.Role != "" {
		if role("bind") {
			return ""
		}
		return fmt.Sprintf("may not grant the AccessRole %q: the verb bind on it is missing; ask an administrator of the hub", grant.Role)
	}
	if g.mayEscalate(ctx) {
		return ""
	}
	lacks := g.lacks(ctx, grant)
	if lacks == "" {
		return ""
	}
	return fmt.Sprintf("may not grant more than it has: %s; grant an AccessRole, or ask an administrator of the hub for the verb escalate on accessroles", lacks)
}

func (g granting) mayEscalate(ctx context.Context) bool {
	return g.may(ctx, g.who, authorizer.AttributesRecord{Verb: "escalate", APIGroup: muster.GroupName, Resource: "accessroles"})
}

// lacks is the first right of a grant's rules that the user does not have on the
// hub, in the cloud's namespace or, for the scope Cluster, in all.
func (g granting) lacks(ctx context.Context, grant v1alpha1.Grant) string {
	namespace := g.namespace
	if grant.Scope == v1alpha1.ScopeCluster {
		namespace = ""
	}
	asked := 0
	for _, rule := range grant.Rules {
		for _, a := range rightsOf(rule, namespace) {
			if asked++; asked > maxReviews {
				return fmt.Sprintf("the rules have more than %d combinations of verbs, groups and resources to look up", maxReviews)
			}
			a.User, a.APIVersion = g.who, "*"
			if decision, _, err := g.authorizer.Authorize(ctx, a); err == nil && decision == authorizer.DecisionAllow {
				continue
			}
			if !a.ResourceRequest {
				return fmt.Sprintf("%s %s is missing", a.Verb, a.Path)
			}
			return fmt.Sprintf("the verb %s on %s (group %q, name %q) is missing", a.Verb, a.Resource, a.APIGroup, a.Name)
		}
	}
	return ""
}

// rightsOf are the single rights that a rule gives. A star is a right of its own,
// which only a star gives.
func rightsOf(rule rbacv1.PolicyRule, namespace string) (out []authorizer.AttributesRecord) {
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	for _, verb := range rule.Verbs {
		for _, path := range rule.NonResourceURLs {
			out = append(out, authorizer.AttributesRecord{Verb: verb, Path: path})
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, name := range names {
					a := authorizer.AttributesRecord{Verb: verb, APIGroup: group, Namespace: namespace, Name: name, ResourceRequest: true}
					a.Resource, a.Subresource = splitResource(resource)
					out = append(out, a)
				}
			}
		}
	}
	return out
}

// splitResource splits pods/log into its parts.
func splitResource(s string) (resource, subresource string) {
	resource, subresource, _ = strings.Cut(s, "/")
	return resource, subresource
}
