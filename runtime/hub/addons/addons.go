// Package addons has what the controllers of add-ons share: the ManagedClusterAddOns
// of an add-on, without a look at each cluster, and what its placements select.
package addons

import (
	"context"
	"fmt"
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/watch"
)

// byName is the index of ManagedClusterAddOns by their name, which is that of their
// ClusterManagementAddOn. API servers know it as a field, so that a client without
// a cache can use it, too.
const byName = "metadata.name"

// Index adds the index that the controllers of add-ons need to a cache. It is done
// once for all of them.
func Index(in client.FieldIndexer) error {
	name := func(o client.Object) []string { return []string{o.GetName()} }
	if err := in.IndexField(context.Background(), &v1alpha1.ManagedClusterAddOn{}, byName, name); err != nil {
		return fmt.Errorf("index the add-ons of clusters by their names: %w", err)
	}
	if err := in.IndexField(context.Background(), &v1alpha1.ManagedClusterAddOn{}, byConfig, configsOf); err != nil {
		return fmt.Errorf("index the add-ons of clusters by their configurations: %w", err)
	}
	return nil
}

// InClusters are the ManagedClusterAddOns of an add-on, in all clusters. Nobody may
// change them.
func InClusters(ctx context.Context, r client.Reader, name string) ([]*v1alpha1.ManagedClusterAddOn, error) {
	list := &v1alpha1.ManagedClusterAddOnList{}
	if err := r.List(ctx, list, client.MatchingFields{byName: name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the add-on %s of all clusters: %w", name, err)
	}
	out := make([]*v1alpha1.ManagedClusterAddOn, 0, len(list.Items))
	for i := range list.Items {
		out = append(out, &list.Items[i])
	}
	return out, nil
}

// RequestsInClusters are requests for the ManagedClusterAddOns of an add-on.
func RequestsInClusters(ctx context.Context, r client.Reader, name string) []reconcile.Request {
	return watch.Matching[client.Object](ctx, r, &v1alpha1.ManagedClusterAddOnList{}, nil, client.MatchingFields{byName: name})
}

// Definition reads the ClusterManagementAddOn of an add-on; it is nil when there is
// none. Nobody may change it.
func Definition(ctx context.Context, r client.Reader, name string) (*v1alpha1.ClusterManagementAddOn, error) {
	a := &v1alpha1.ClusterManagementAddOn{}
	if err := r.Get(ctx, types.NamespacedName{Name: name}, a, client.UnsafeDisableDeepCopy); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil, nil
		}
		return nil, fmt.Errorf("read the ClusterManagementAddOn %s: %w", name, err)
	}
	return a, nil
}

// OwnerReference is what a ManagedClusterAddOn says of its ClusterManagementAddOn.
// It names v1beta1, as upstream's does.
func OwnerReference(a *v1alpha1.ClusterManagementAddOn) metav1.OwnerReference {
	return *metav1.NewControllerRef(a, v1beta1.GroupVersion.WithKind("ClusterManagementAddOn"))
}

// Annotations are those of a cluster's annotations that its add-ons get, too.
func Annotations(annotations map[string]string) map[string]string {
	out := maps.Clone(annotations)
	maps.DeleteFunc(out, func(key, _ string) bool { return !strings.HasPrefix(key, addon.AnnotationPrefix) })
	return out
}
