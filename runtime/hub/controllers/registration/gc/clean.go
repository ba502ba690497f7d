package gc

import (
	"context"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// lowest is beyond the last priority.
const lowest = 101

// known is a resource that the hub watches anyway.
type known struct {
	object client.Object
	list   client.ObjectList
	// served is the resource in the version in which the hub watches it. Objects
	// are deleted in it, too: the version that was asked for may not be served,
	// and then the objects that the cache holds would never go.
	served schema.GroupVersionResource
}

// watched is how the hub watches a resource, in whatever version it is to be
// cleaned. ok is false when the hub does not watch it.
func watched(r schema.GroupVersionResource) (_ known, ok bool) {
	switch r.GroupResource() {
	case schema.GroupResource{Group: addon.GroupName, Resource: "managedclusteraddons"}:
		return known{&addonv1alpha1.ManagedClusterAddOn{}, &addonv1alpha1.ManagedClusterAddOnList{}, addonv1alpha1.GroupVersion.WithResource(r.Resource)}, true
	case schema.GroupResource{Group: work.GroupName, Resource: "manifestworks"}:
		object, list := &metav1.PartialObjectMetadata{}, &metav1.PartialObjectMetadataList{}
		object.SetGroupVersionKind(workv1.GroupVersion.WithKind("ManifestWork"))
		list.SetGroupVersionKind(workv1.GroupVersion.WithKind("ManifestWorkList"))
		return known{object, list, workv1.GroupVersion.WithResource(r.Resource)}, true
	}
	return known{}, false
}

// remaining is what is left of one resource.
type remaining struct {
	total   int // objects that are still there
	pending int // of those, the ones that only wait for a finalizer
}

// cleaner deletes the objects of a namespace.
type cleaner struct {
	client client.Client
	// live reaches the resources that the hub does not watch.
	live metadata.Interface
}

// clean deletes the objects of one resource whose priority's turn it is. Once it
// has seen which they are, it asks mayDelete, if there is one; when that says
// no, it leaves them and counts none.
func (c cleaner) clean(ctx context.Context, namespace string, r schema.GroupVersionResource, mayDelete func(context.Context) (bool, error)) (remaining, error) {
	objects, err := c.list(ctx, namespace, r)
	if err != nil || len(objects) == 0 {
		return remaining{}, err
	}
	if mayDelete != nil {
		if may, err := mayDelete(ctx); err != nil || !may {
			return remaining{}, err
		}
	}
	if k, ok := watched(r); ok {
		r = k.served
	}
	left := remaining{total: len(objects)}
	turn := lowest
	for _, o := range objects {
		turn = min(turn, priority(o))
	}
	for _, o := range objects {
		switch {
		case o.GetDeletionTimestamp() != nil:
			left.pending++
		case priority(o) == turn:
			uid := o.GetUID()
			options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}
			err := c.live.Resource(r).Namespace(namespace).Delete(ctx, o.GetName(), options)
			// A conflict means that the object of that name is another one by now.
			if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				return left, err
			}
		}
	}
	return left, nil
}

// list returns the objects of a resource. That there are none is only believed
// of the hub itself: a cache may yet have to hear of a work that was created
// just before its cluster was deleted, and the cluster would go without it.
func (c cleaner) list(ctx context.Context, namespace string, r schema.GroupVersionResource) ([]metav1.Object, error) {
	if k, ok := watched(r); ok {
		if err := c.client.List(ctx, k.list, client.InNamespace(namespace)); err != nil {
			return nil, err
		}
		if objects, err := items(k.list); err != nil || len(objects) > 0 {
			return objects, err
		}
		r = k.served
	}
	found, err := c.live.Resource(r).Namespace(namespace).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil // the hub does not serve it
	}
	if err != nil {
		return nil, err
	}
	return items(found)
}

func items(list runtime.Object) ([]metav1.Object, error) {
	var objects []metav1.Object
	err := meta.EachListItem(list, func(o runtime.Object) error {
		m, err := meta.Accessor(o)
		objects = append(objects, m)
		return err
	})
	return objects, err
}

// priority is when an object's turn to be deleted comes: 0 to 100, lowest
// first. An annotation that is missing or no such number counts as 0.
func priority(o metav1.Object) int {
	n, err := strconv.Atoi(o.GetAnnotations()[cluster.CleanupPriorityAnnotation])
	if err != nil || n < 0 || n >= lowest {
		return 0
	}
	return n
}
