package work

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
)

// update creates the object or replaces what it has, except for its metadata,
// which is merged. settled is the body that the object had when it last was as
// the manifest says: while it has that, nothing is written. Otherwise fields go
// that the manifest does not name, and the server fills in its own again.
func (o *objects) update(ctx context.Context, resource dynamic.ResourceInterface, m *manifest, owner metav1.OwnerReference, settled bodyHash) (result, error) {
	live, made, err := getOrCreate(ctx, resource, m, owner)
	if err != nil || made {
		return result{live, made}, err
	}
	if mustBeMadeAnew(live, m.required) {
		if err := o.mayReplace(ctx, m); err != nil {
			return result{live, false}, err
		}
		return recreate(ctx, resource, live, m, owner)
	}
	wrote := false
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		updated, err := replace(ctx, resource, live, m, owner, settled)
		switch {
		case updated != nil:
			wrote = updated.GetResourceVersion() != live.GetResourceVersion()
			live = updated
		case apierrors.IsConflict(err):
			o.metrics.conflict(updateConflict)
			if fresh, getErr := resource.Get(ctx, m.meta.Name, metav1.GetOptions{}); getErr == nil {
				live = fresh
			}
		}
		return err
	})
	return result{live, wrote}, err
}

// replace writes what differs, and returns nil when nothing does.
//
// Some objects cannot be replaced by what their manifest says, since the server
// filled in fields that then may not change, such as the selector of a job.
// Such an object is as it should be when it holds what the manifest names.
func replace(ctx context.Context, resource dynamic.ResourceInterface, live *unstructured.Unstructured, m *manifest, owner metav1.OwnerReference, settled bodyHash) (*unstructured.Unstructured, error) {
	put := func(want *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		updated, err := resource.Update(ctx, want, metav1.UpdateOptions{FieldManager: work.DefaultFieldManager})
		if err != nil {
			return nil, err
		}
		return updated, nil
	}
	metadata := mergedMetadata(live, m.required, owner, m.owned)
	sameMetadata := apiequality.Semantic.DeepEqual(metadata, live.Object["metadata"])
	sameBody := hasOnlyMetadata(m.required) || bodyOf(live) == settled || bodyEquals(live, m.required)
	if sameMetadata && sameBody {
		return nil, nil
	}
	if !sameBody {
		updated, err := put(merged(live, m.required, metadata))
		if !apierrors.IsInvalid(err) || !bodyHolds(live, m.required) {
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

// bodyHash identifies all of an object but its metadata and status.
type bodyHash [sha256.Size]byte

func bodyOf(o *unstructured.Unstructured) bodyHash {
	body := make(map[string]any, len(o.Object))
	for k, v := range o.Object {
		if k != "metadata" && k != "status" {
			body[k] = v
		}
	}
	data, err := json.Marshal(body)
	if err != nil { // of what was read as JSON, which always can be
		return bodyHash{}
	}
	return sha256.Sum256(data)
}

// hasOnlyMetadata reports whether of an object's kind the metadata only is kept
// as the manifest says: the rest may not change, or is the cluster's business.
func hasOnlyMetadata(required *unstructured.Unstructured) bool {
	return isCore(required, "Pod") || isCore(required, "Namespace") || isCore(required, "ServiceAccount")
}

// mustBeMadeAnew reports whether an object cannot become what is required by an
// update: a secret of another type, or one that may not change.
func mustBeMadeAnew(live, required *unstructured.Unstructured) bool {
	if !isCore(required, "Secret") {
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

// recreate makes an object anew. Should the agent be killed in between, the
// object is missing afterwards, which the next look at the work mends.
func recreate(ctx context.Context, resource dynamic.ResourceInterface, live *unstructured.Unstructured, m *manifest, owner metav1.OwnerReference) (result, error) {
	uid := live.GetUID()
	err := resource.Delete(ctx, m.meta.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if err != nil && !apierrors.IsNotFound(err) {
		return result{live, false}, err
	}
	made, err := create(ctx, resource, m, owner)
	if err != nil {
		return result{}, err
	}
	return result{made, true}, nil
}

func isAggregated(o *unstructured.Unstructured) bool {
	gvk := o.GroupVersionKind()
	return gvk.Group == rbacv1.GroupName && gvk.Kind == "ClusterRole" && o.Object["aggregationRule"] != nil
}

func isCore(o *unstructured.Unstructured, kind string) bool {
	return o.GetAPIVersion() == "v1" && o.GetKind() == kind
}

// bodyEquals reports whether all but metadata and status is as required, and
// there is nothing else.
func bodyEquals(live, required *unstructured.Unstructured) bool {
	for k, v := range required.Object {
		if k != "metadata" && k != "status" && !apiequality.Semantic.DeepEqual(v, live.Object[k]) {
			return false
		}
	}
	for k := range live.Object {
		if _, ok := required.Object[k]; !ok && k != "metadata" && k != "status" && !isFilledIn(required, k) {
			return false
		}
	}
	return true
}

// isFilledIn reports whether it is the cluster that sets a field of an object
// whose manifest does not: the rules of an aggregated role, without which it
// would grant nothing for a moment, and the type of a secret.
func isFilledIn(required *unstructured.Unstructured, field string) bool {
	return field == "rules" && isAggregated(required) || field == "type" && isCore(required, "Secret")
}

// bodyHolds reports whether all but metadata and status holds what is required.
func bodyHolds(live, required *unstructured.Unstructured) bool {
	for k, v := range required.Object {
		if k != "metadata" && k != "status" && !contains(live.Object[k], v) {
			return false
		}
	}
	return true
}

// contains reports whether have holds all that want does. Lists count as a
// whole, item by item: an item may have more fields, the list not more items.
func contains(have, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		h, ok := have.(map[string]any)
		if !ok {
			return len(want) == 0 && have == nil
		}
		for k, v := range want {
			if !contains(h[k], v) {
				return false
			}
		}
		return true
	case []any:
		h, ok := have.([]any)
		if !ok {
			return len(want) == 0 && have == nil
		}
		if len(h) != len(want) {
			return false
		}
		for i := range want {
			if !contains(h[i], want[i]) {
				return false
			}
		}
		return true
	}
	return apiequality.Semantic.DeepEqual(have, want)
}

// merged is the live object with the body of the required one.
func merged(live, required *unstructured.Unstructured, metadata any) *unstructured.Unstructured {
	want := required.DeepCopy()
	for k, v := range live.DeepCopy().Object {
		if _, ok := want.Object[k]; !ok && isFilledIn(required, k) {
			want.Object[k] = v
		}
	}
	if status, ok := live.Object["status"]; ok {
		want.Object["status"] = status
	}
	want.Object["metadata"] = metadata
	return want
}

// mergedMetadata is the metadata of the live object with the labels,
// annotations and owners of the required one added.
func mergedMetadata(live, required *unstructured.Unstructured, owner metav1.OwnerReference, owned bool) any {
	want := live.DeepCopy()
	if labels := mergedMap(live.GetLabels(), required.GetLabels()); !equalMaps(labels, live.GetLabels()) {
		want.SetLabels(labels)
	}
	if annotations := mergedMap(live.GetAnnotations(), required.GetAnnotations()); !equalMaps(annotations, live.GetAnnotations()) {
		want.SetAnnotations(annotations)
	}
	refs := live.GetOwnerReferences()
	for _, r := range required.GetOwnerReferences() {
		refs, _ = withOwner(refs, r, true)
	}
	if refs, changed := withOwner(refs, owner, owned); changed || len(refs) != len(live.GetOwnerReferences()) {
		want.SetOwnerReferences(refs)
	}
	return want.Object["metadata"]
}

// mergedMap adds the wanted entries to what there is. A key that ends in "-"
// removes the entry.
func mergedMap(have, want map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range have {
		out[k] = v
	}
	for k, v := range want {
		if removed, ok := strings.CutSuffix(k, "-"); ok {
			delete(out, removed)
		} else {
			out[k] = v
		}
	}
	return out
}

func withoutRemovals(m map[string]string) map[string]string {
	var out map[string]string
	for k, v := range m {
		if !strings.HasSuffix(k, "-") {
			if out == nil {
				out = map[string]string{}
			}
			out[k] = v
		}
	}
	return out
}
