package controlplane

import (
	"context"
	"errors"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/authorization/metrics"
	"k8s.io/apiserver/pkg/authorization/union"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"
)

// withBoundRights has a server decide by boundRights where Kubernetes' RBAC would.
func withBoundRights(generic *genericapiserver.Config, shared informers.SharedInformerFactory) error {
	roles := shared.Rbac().V1()
	bindings := roles.ClusterRoleBindings().Informer()
	if err := bindings.AddIndexers(cache.Indexers{bySubject: subjectsOf}); err != nil {
		return fmt.Errorf("index the cluster role bindings: %w", err)
	}
	rights := boundRights{rbac.New(
		&rbac.RoleGetter{Lister: roles.Roles().Lister()},
		&rbac.RoleBindingLister{Lister: roles.RoleBindings().Lister()},
		&rbac.ClusterRoleGetter{Lister: roles.ClusterRoles().Lister()},
		subjectBindings{bindings.GetIndexer()},
	)}
	both, err := union.New(
		union.NamedAuthorizer{
			AuthorizerName: "kubernetes.io/system-privileged-group",
			Authorizer:     authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup),
		},
		union.NamedAuthorizer{
			AuthorizerName: "rbac", Authorizer: metrics.InstrumentedAuthorizer("RBAC", "rbac", rights),
		},
	)
	generic.Authorization.Authorizer, generic.RuleResolver = both, rights
	return err
}

// boundRights is Kubernetes' RBAC, which looks at those cluster role bindings that have the
// user or one of its groups as a subject. Kubernetes looks at all of them for each request,
// and a hub has one for each managed cluster.
type boundRights struct{ *rbac.RBACAuthorizer }

type boundUserKey struct{}

// Authorize implements authorizer.Authorizer.
func (r boundRights) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	return r.RBACAuthorizer.Authorize(context.WithValue(ctx, boundUserKey{}, a.GetUser()), a)
}

// ConditionsAwareAuthorize implements authorizer.Authorizer. RBAC has no conditions.
func (r boundRights) ConditionsAwareAuthorize(
	ctx context.Context, a authorizer.Attributes,
) authorizer.ConditionsAwareDecision {
	return authorizer.ConditionsAwareDecisionFromParts(r.Authorize(ctx, a))
}

// RulesFor implements authorizer.RuleResolver.
func (r boundRights) RulesFor(
	ctx context.Context, who user.Info, namespace string,
) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	return r.RBACAuthorizer.RulesFor(context.WithValue(ctx, boundUserKey{}, who), who, namespace)
}

// bySubject is the index of cluster role bindings by their subjects: user:NAME or group:NAME.
const bySubject = "subject"

// subjectsOf implements cache.IndexFunc.
func subjectsOf(object any) ([]string, error) {
	b, ok := object.(*rbacv1.ClusterRoleBinding)
	if !ok {
		return nil, fmt.Errorf("a %T is no cluster role binding", object)
	}
	values := make([]string, 0, len(b.Subjects))
	for _, s := range b.Subjects {
		switch s.Kind {
		case rbacv1.UserKind:
			values = append(values, userSubject(s.Name))
		case rbacv1.GroupKind:
			values = append(values, groupSubject(s.Name))
		case rbacv1.ServiceAccountKind:
			values = append(values, userSubject(serviceaccount.MakeUsername(s.Namespace, s.Name)))
		}
	}
	return values, nil
}

func userSubject(name string) string  { return "user:" + name }
func groupSubject(name string) string { return "group:" + name }

// subjectBindings lists the cluster role bindings of the user in the context.
type subjectBindings struct{ indexer cache.Indexer }

// ListClusterRoleBindings implements validation.ClusterRoleBindingLister. Each binding is
// there once, and whether it applies is decided by who asks.
func (l subjectBindings) ListClusterRoleBindings(ctx context.Context) ([]*rbacv1.ClusterRoleBinding, error) {
	who, ok := ctx.Value(boundUserKey{}).(user.Info)
	if !ok {
		return nil, errors.New("list the cluster role bindings of a user: there is none in the context")
	}
	subjects := make([]string, 0, 1+len(who.GetGroups()))
	subjects = append(subjects, userSubject(who.GetName()))
	for _, g := range who.GetGroups() {
		subjects = append(subjects, groupSubject(g))
	}
	var all []*rbacv1.ClusterRoleBinding
	seen := map[*rbacv1.ClusterRoleBinding]bool{}
	for _, s := range subjects {
		bound, err := l.indexer.ByIndex(bySubject, s)
		if err != nil {
			return nil, err
		}
		for _, o := range bound {
			if b, ok := o.(*rbacv1.ClusterRoleBinding); ok && !seen[b] {
				seen[b] = true
				all = append(all, b)
			}
		}
	}
	return all, nil
}
