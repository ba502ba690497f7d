package applier

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"maps"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/manifest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
)

// getOrCreate returns the object, and creates it when it is missing.
func (t target) getOrCreate(ctx context.Context) (live *unstructured.Unstructured, made bool, err error) {
	if t.want.New {
		if live, err = t.create(ctx); err == nil {
			return live, true, nil
		}
	}
	createErr := err
	live, err = t.at.Get(ctx, t.m.Meta.Name, metav1.GetOptions{})
	switch {
	case err == nil:
		return live, false, nil
	case !apierrors.IsNotFound(err):
		return nil, false, err
	case createErr != nil:
		return nil, false, createErr
	}
	live, err = t.create(ctx)
	if apierrors.IsAlreadyExists(err) { // another client was faster
		live, err = t.at.Get(ctx, t.m.Meta.Name, metav1.GetOptions{})
		return live, false, err
	}
	return live, err == nil, err
}

// create makes the object.
func (t target) create(ctx context.Context) (*unstructured.Unstructured, error) {
	object := t.m.Required.DeepCopy()
	object.SetLabels(withoutRemovals(object.GetLabels()))
	object.SetAnnotations(withoutRemovals(object.GetAnnotations()))
	if t.m.Owned {
		object.SetOwnerReferences(append(object.GetOwnerReferences(), t.want.Owner))
	}
	return t.at.Create(ctx, object, metav1.CreateOptions{FieldManager: work.DefaultFieldManager})
}

func (t target) createOnly(ctx context.Context) (Result, error) {
	live, made, err := t.getOrCreate(ctx)
	if err != nil || made {
		return Result{Live: live, Wrote: made}, err
	}
	return t.own(ctx, live)
}

// own makes the work an owner of the object, if it is to be one, and writes nothing else.
func (t target) own(ctx context.Context, live *unstructured.Unstructured) (Result, error) {
	if t.dry {
		return Result{Live: live}, nil // one that a dry run has made isn't there
	}
	owned, err := setOwner(ctx, t.at, live, t.want.Owner, t.m.Owned)
	return Result{Live: owned, Wrote: owned != live}, err
}

// update creates the object or replaces what it has, except for its metadata,
// which is merged. While the object has the settled body, nothing is written.
// Otherwise fields are removed that the manifest does not name, and the server
// fills in its own again.
func (t target) update(ctx context.Context) (Result, error) {
	live, made, err := t.getOrCreate(ctx)
	if err != nil || made {
		return Result{Live: live, Wrote: made}, err
	}
	if mustBeRecreated(live, t.m.Required) {
		if err := t.rights.MayReplace(ctx, t.m); err != nil {
			return Result{Live: live}, err
		}
		return t.recreate(ctx, live)
	}
	wrote := false
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		updated, err := t.replace(ctx, live)
		switch {
		case updated != nil:
			wrote = updated.GetResourceVersion() != live.GetResourceVersion()
			live = updated
		case apierrors.IsConflict(err):
			t.conflicted()
			if fresh, getErr := t.at.Get(ctx, t.m.Meta.Name, metav1.GetOptions{}); getErr == nil {
				live = fresh
			}
		}
		return err
	})
	return Result{Live: live, Wrote: wrote}, err
}

// replace writes what differs, and returns nil when nothing does.
//
// Some objects cannot be replaced by what their manifest says, since the server
// filled in fields that then may not change, such as the selector of a job.
// Such an object is as it should be when it holds what the manifest names.
func (t target) replace(ctx context.Context, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	put := func(object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		updated, err := t.at.Update(ctx, object, metav1.UpdateOptions{FieldManager: work.DefaultFieldManager})
		if err != nil {
			return nil, err
		}
		return updated, nil
	}
	required := t.m.Required
	metadata := mergedMetadata(live, required, t.want.Owner, t.m.Owned)
	sameMetadata := apiequality.Semantic.DeepEqual(metadata, live.Object["metadata"])
	sameBody := hasOnlyMetadata(required) || bodyOf(live) == t.want.Settled || bodyEquals(live, required)
	if sameMetadata && sameBody {
		return nil, nil
	}
	if !sameBody {
		updated, err := put(merged(live, required, metadata))
		if !apierrors.IsInvalid(err) || !bodyHolds(live, required) {
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
// as the manifest says: the rest may not change, or is up to the cluster.
func hasOnlyMetadata(required *unstructured.Unstructured) bool {
	return manifest.IsCore(required, "Pod") || manifest.IsCore(required, "Namespace") ||
		manifest.IsCore(required, "ServiceAccount")
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
// between, the object is missing until the next pass over the work.
func (t target) recreate(ctx context.Context, live *unstructured.Unstructured) (Result, error) {
	uid := live.GetUID()
	err := t.at.Delete(ctx, t.m.Meta.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if err != nil && !apierrors.IsNotFound(err) {
		return Result{Live: live}, err
	}
	if t.dry {
		return Result{Live: t.m.Required, Recreated: true}, nil // the name is still taken
	}
	made, err := t.create(ctx)
	if err != nil {
		return Result{}, err
	}
	return Result{Live: made, Wrote: true, Recreated: true}, nil
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
	if labels := mergedMap(live.GetLabels(), required.GetLabels()); !maps.Equal(labels, live.GetLabels()) {
		want.SetLabels(labels)
	}
	has := live.GetAnnotations()
	if annotations := mergedMap(has, required.GetAnnotations()); !maps.Equal(annotations, has) {
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
	maps.Copy(out, have)
	for k, v := range want {
		if removed, ok := strings.CutSuffix(k, "-"); ok {
			delete(out, removed)
		} else {
			out[k] = v
		}
	}
	return out
}

// withoutRemovals are the entries of a manifest that add something.
func withoutRemovals(m map[string]string) map[string]string {
	out := maps.Clone(m)
	maps.DeleteFunc(out, func(k, _ string) bool { return strings.HasSuffix(k, "-") })
	return out
}

// bodyOf identifies all of an object but its metadata and status.
func bodyOf(o *unstructured.Unstructured) manifest.Hash {
	body := make(map[string]any, len(o.Object))
	for k, v := range o.Object {
		if k != "metadata" && k != "status" {
			body[k] = v
		}
	}
	data, err := json.Marshal(body)
	if err != nil { // of what was read as JSON, which always can be
		return manifest.Hash{}
	}
	return sha256.Sum256(data)
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
	return field == "rules" && manifest.IsAggregated(required) || field == "type" && manifest.IsCore(required, "Secret")
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
