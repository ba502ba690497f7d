package controlplane

import (
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	rbacinformers "k8s.io/client-go/informers/rbac/v1"
	"k8s.io/client-go/tools/cache"
)

// aggregatedRoles are the cluster roles for the controller that aggregates them. It hears of
// those that an aggregation concerns. Kubernetes' controller looks at all cluster roles,
// several times, after a change of any, and a hub has one for each managed cluster.
type aggregatedRoles struct {
	rbacinformers.ClusterRoleInformer
	informer aggregatedInformer
}

func newAggregatedRoles(roles rbacinformers.ClusterRoleInformer) (aggregatedRoles, error) {
	i := roles.Informer()
	err := i.AddIndexers(cache.Indexers{aggregated: func(object any) ([]string, error) {
		if r, ok := object.(*rbacv1.ClusterRole); ok && r.AggregationRule != nil {
			return []string{""}, nil
		}
		return nil, nil
	}})
	if err != nil {
		return aggregatedRoles{}, fmt.Errorf("index the cluster roles: %w", err)
	}
	return aggregatedRoles{roles, aggregatedInformer{i}}, nil
}

// Informer implements rbacinformers.ClusterRoleInformer.
func (r aggregatedRoles) Informer() cache.SharedIndexInformer { return r.informer }

// aggregated is the index of the cluster roles that have an aggregation rule.
const aggregated = "aggregated"

// aggregatedInformer tells handlers only of cluster roles that an aggregation concerns.
type aggregatedInformer struct{ cache.SharedIndexInformer }

// AddEventHandler implements cache.SharedInformer.
func (i aggregatedInformer) AddEventHandler(
	handler cache.ResourceEventHandler,
) (cache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandler(cache.FilteringResourceEventHandler{
		FilterFunc: i.concerns, Handler: handler,
	})
}

// concerns reports whether a cluster role has an aggregation rule, or one selects it.
func (i aggregatedInformer) concerns(object any) bool {
	if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = last.Obj
	}
	role, ok := object.(*rbacv1.ClusterRole)
	if !ok || role.AggregationRule != nil {
		return true
	}
	all, err := i.GetIndexer().ByIndex(aggregated, "")
	return err != nil || slices.ContainsFunc(all, func(o any) bool {
		r, ok := o.(*rbacv1.ClusterRole)
		return ok && slices.ContainsFunc(r.AggregationRule.ClusterRoleSelectors, func(s metav1.LabelSelector) bool {
			selector, err := metav1.LabelSelectorAsSelector(&s)
			return err == nil && selector.Matches(labels.Set(role.Labels))
		})
	})
}
