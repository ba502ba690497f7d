package applier

import (
	"context"
	"encoding/json"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

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
