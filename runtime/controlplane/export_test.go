package controlplane

import (
	"context"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/tools/cache"
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
