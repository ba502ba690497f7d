package applier

import (
	"context"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/manifest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
)

// update creates the object or replaces what it has, except for its metadata,
// which is merged. While the object has the settled body, nothing is written.
// Otherwise fields are removed that the manifest does not name, and the server
// fills in its own again.
func (o *Applier) update(ctx context.Context, resource dynamic.ResourceInterface, m *manifest.Manifest, want Desired) (Result, error) {
	live, made, err := getOrCreate(ctx, resource, m, want)
	if err != nil || made {
		return Result{live, made}, err
	}
	if mustBeRecreated(live, m.Required) {
		if err := o.rights.MayReplace(ctx, m); err != nil {
			return Result{live, false}, err
		}
		return recreate(ctx, resource, live, m, want.Owner)
	}
	wrote := false
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		updated, err := replace(ctx, resource, live, m, want)
		switch {
		case updated != nil:
			wrote = updated.GetResourceVersion() != live.GetResourceVersion()
			live = updated
		case apierrors.IsConflict(err):
			o.conflicted()
			if fresh, getErr := resource.Get(ctx, m.Meta.Name, metav1.GetOptions{}); getErr == nil {
				live = fresh
			}
		}
		return err
	})
	return Result{live, wrote}, err
}

// replace writes what differs, and returns nil when nothing does.
//
// Some objects cannot be replaced by what their manifest says, since the server
// filled in fields that then may not change, such as the selector of a job.
// Such an object is as it should be when it holds what the manifest names.
func replace(
	ctx context.Context, resource dynamic.ResourceInterface, live *unstructured.Unstructured, m *manifest.Manifest, want Desired,
) (*unstructured.Unstructured, error) {
	put := func(object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		updated, err := resource.Update(ctx, object, metav1.UpdateOptions{FieldManager: work.DefaultFieldManager})
		if err != nil {
			return nil, err
		}
		return updated, nil
	}
	metadata := mergedMetadata(live, m.Required, want.Owner, m.Owned)
	sameMetadata := apiequality.Semantic.DeepEqual(metadata, live.Object["metadata"])
	sameBody := hasOnlyMetadata(m.Required) || BodyOf(live) == want.Settled || bodyEquals(live, m.Required)
	if sameMetadata && sameBody {
		return nil, nil
	}
	if !sameBody {
		updated, err := put(merged(live, m.Required, metadata))
		if !apierrors.IsInvalid(err) || !bodyHolds(live, m.Required) {
			return updated, err
		}
		if sameMetadata {
			return nil, nil
		}
	}
	kept := live.DeepCopy()
	kept.Object["metadata"] = metadata
	return put(kept)
}

// hasOnlyMetadata reports whether of an object's kind the metadata only is kept
// as the manifest says: the rest may not change, or is the cluster's business.
func hasOnlyMetadata(required *unstructured.Unstructured) bool {
	return manifest.IsCore(required, "Pod") || manifest.IsCore(required, "Namespace") || manifest.IsCore(required, "ServiceAccount")
}

// mustBeRecreated reports whether an object cannot become what is required by an
// update: a secret of another type, or one that may not change.
func mustBeRecreated(live, required *unstructured.Unstructured) bool {
	if !manifest.IsCore(required, "Secret") {
		return false
	}
	if want, _, _ := unstructured.NestedString(required.Object, "type"); want != "" {
		if have, _, _ := unstructured.NestedString(live.Object, "type"); have != want {
			return true
		}
	}
	immutable, _, _ := unstructured.NestedBool(live.Object, "immutable")
	return immutable && !bodyEquals(live, required)
}

// recreate deletes an object and creates it again. If the agent is killed in
// between, the object is missing until the next look at the work.
func recreate(
	ctx context.Context, resource dynamic.ResourceInterface, live *unstructured.Unstructured, m *manifest.Manifest,
	owner metav1.OwnerReference,
) (Result, error) {
	uid := live.GetUID()
	err := resource.Delete(ctx, m.Meta.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if err != nil && !apierrors.IsNotFound(err) {
		return Result{live, false}, err
	}
	made, err := create(ctx, resource, m, owner)
	if err != nil {
		return Result{}, err
	}
	return Result{made, true}, nil
}
