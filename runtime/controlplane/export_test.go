package controlplane

import (
	"context"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"
)

// SetStoredFor changes how long resumed watches go to the store, until it is set back.
func SetStoredFor(d time.Duration) (back func()) {
	before := storedFor
	storedFor = d
	return func() { storedFor = before }
}

// NewAggregatedRoles is newAggregatedRoles.
var NewAggregatedRoles = newAggregatedRoles

// BindingsOf are those of some cluster role bindings that RBAC looks at for a user.
func BindingsOf(who user.Info, all ...*rbacv1.ClusterRoleBinding) ([]*rbacv1.ClusterRoleBinding, error) {
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{bySubject: subjectsOf})
	for _, b := range all {
		if err := indexer.Add(b); err != nil {
			return nil, err
		}
	}
	ctx := context.WithValue(context.Background(), boundUserKey{}, who)
	return subjectBindings{indexer}.ListClusterRoleBindings(ctx)
}

// Rights are authorizers with these cluster role bindings and an empty role: the server's, and
// Kubernetes' own.
func Rights(role string, all ...*rbacv1.ClusterRoleBinding) (ours, own authorizer.Authorizer, err error) {
	shared, generic := informers.NewSharedInformerFactory(fake.NewClientset(), 0), &genericapiserver.Config{}
	if err := withBoundRights(generic, shared); err != nil {
		return nil, nil, err
	}
	roles := shared.Rbac().V1()
	empty := &rbacv1.ClusterRole{}
	empty.Name = role
	if err := roles.ClusterRoles().Informer().GetIndexer().Add(empty); err != nil {
		return nil, nil, err
	}
	for _, b := range all {
		if err := roles.ClusterRoleBindings().Informer().GetIndexer().Add(b); err != nil {
			return nil, nil, err
		}
	}
	return generic.Authorization.Authorizer, rbac.New(
		&rbac.RoleGetter{Lister: roles.Roles().Lister()},
		&rbac.RoleBindingLister{Lister: roles.RoleBindings().Lister()},
		&rbac.ClusterRoleGetter{Lister: roles.ClusterRoles().Lister()},
		&rbac.ClusterRoleBindingLister{Lister: roles.ClusterRoleBindings().Lister()},
	), nil
}
