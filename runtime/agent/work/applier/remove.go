package applier

import (
	"context"
	"encoding/json"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
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

// withOwner adds or removes an owner and reports whether that changed anything.
func withOwner(refs []metav1.OwnerReference, owner metav1.OwnerReference, owned bool) ([]metav1.OwnerReference, bool) {
	var out []metav1.OwnerReference
	found := false
	for _, r := range refs {
		if r.UID == owner.UID {
			found = true
			if !owned {
				continue
			}
		}
		out = append(out, r)
	}
	if owned && !found {
		out = append(out, owner)
	}
	return out, owned != found
}

// owners reports whether an object is owned by the AppliedManifestWork with a
// UID, and whether by others of that kind.
func owners(refs []metav1.OwnerReference, uid types.UID) (mine, others bool) {
	for _, r := range refs {
		switch {
		case r.UID == uid:
			mine = true
		case r.APIVersion == workv1.GroupVersion.String() && r.Kind == "AppliedManifestWork":
			others = true
		}
	}
	return mine, others
}

// setOwner adds or removes the owner of an object, and nothing else. An object
// that others write meanwhile is read again; one that is re-created meanwhile is
// another object, and left alone.
func setOwner(
	ctx context.Context, resource dynamic.ResourceInterface, live *unstructured.Unstructured,
	owner metav1.OwnerReference, owned bool,
) (*unstructured.Unstructured, error) {
	uid := live.GetUID()
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		refs, changed := withOwner(live.GetOwnerReferences(), owner, owned)
		if !changed {
			return nil
		}
		if refs == nil {
			refs = []metav1.OwnerReference{}
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"uid": uid, "resourceVersion": live.GetResourceVersion(), "ownerReferences": refs,
		}})
		if err != nil {
			return err
		}
		patched, err := resource.Patch(ctx, live.GetName(), types.MergePatchType, patch,
			metav1.PatchOptions{FieldManager: work.DefaultFieldManager})
		if err == nil {
			live = patched
		}
		if apierrors.IsConflict(err) {
			fresh, getErr := resource.Get(ctx, live.GetName(), metav1.GetOptions{})
			if getErr == nil && fresh.GetUID() == uid {
				live = fresh
			}
		}
		return err
	})
	return live, err
}
