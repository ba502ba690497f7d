package applier

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// Left is what is left of an object that is being deleted.
type Left struct {
	Finalizers []string // what holds it, where that is known
}

func remains(live *unstructured.Unstructured) *Left {
	return &Left{Finalizers: live.GetFinalizers()}
}

// Remove deletes one object that a work has made, unless others own it now. It
// returns what is left of it, or nil when there is nothing to wait for.
func (o *Applier) Remove(
	ctx context.Context, r workv1.AppliedManifestResourceMeta, amw *workv1.AppliedManifestWork,
) (*Left, error) {
	gvr := schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Resource}
	live, err := o.Get(ctx, gvr, r.Namespace, r.Name)
	if err != nil {
		return &Left{}, err
	}
	if live == nil {
		return nil, nil
	}
	mine, others := owners(live.GetOwnerReferences(), amw.UID)
	switch {
	case !mine:
		return nil, nil // orphaned, or taken away from us
	case others:
		resource := o.resource(gvr, r.Namespace)
		_, err := setOwner(ctx, resource, live, metav1.OwnerReference{UID: amw.UID}, false)
		if client.IgnoreNotFound(err) != nil {
			return remains(live), err
		}
		return nil, nil
	case r.UID != "" && r.UID != string(live.GetUID()):
		return nil, nil // another object of the same name
	case live.GetDeletionTimestamp() != nil:
		return remains(live), nil
	}
	background := metav1.DeletePropagationBackground
	uid := live.GetUID()
	err = o.resource(gvr, r.Namespace).Delete(ctx, r.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &uid}, PropagationPolicy: &background,
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil, nil
	}
	if err != nil {
		return remains(live), err
	}
	// Most objects are gone at once.
	if live, err = o.Get(ctx, gvr, r.Namespace, r.Name); err != nil {
		return &Left{}, err
	}
	if live == nil || live.GetUID() != uid {
		return nil, nil
	}
	return remains(live), nil
}
