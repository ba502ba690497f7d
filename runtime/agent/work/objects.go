package work

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// objects reads and writes objects of any kind in the managed cluster.
type objects struct {
	client  dynamic.Interface
	mapper  meta.RESTMapper
	reviews client.Client // for access reviews
	config  *rest.Config  // for impersonation
}

// errIgnoreFields marks what went wrong with a manifest's ignored fields.
var errIgnoreFields = errors.New("Failed to process ignoreFields")

// errApplyConflict marks a conflict with another field manager, which no quick
// retry resolves.
var errApplyConflict = errors.New("conflict with another field manager")

func (o *objects) resource(gvr schema.GroupVersionResource, namespace string) dynamic.ResourceInterface {
	if namespace == "" {
		return o.client.Resource(gvr)
	}
	return o.client.Resource(gvr).Namespace(namespace)
}

// apply brings a manifest's object to its wanted state and returns what is then
// in the cluster; nil when there is nothing. changed says that the manifest may
// have lost fields since it was last applied.
func (o *objects) apply(ctx context.Context, m *manifest, owner metav1.OwnerReference, changed bool) (*unstructured.Unstructured, error) {
	resource := o.resource(m.gvr, m.meta.Namespace)
	switch m.strategy.Type {
	case workv1.UpdateStrategyTypeReadOnly:
		live, err := resource.Get(ctx, m.meta.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return live, err
	case workv1.UpdateStrategyTypeServerSideApply:
		return o.serverSideApply(ctx, resource, m, owner)
	case workv1.UpdateStrategyTypeCreateOnly:
		return o.createOnly(ctx, resource, m, owner)
	case workv1.UpdateStrategyTypeUpdate:
		return o.update(ctx, resource, m, owner, changed)
	}
	return nil, fmt.Errorf("unknown update strategy %q: use Update, CreateOnly, ServerSideApply or ReadOnly", m.strategy.Type)
}

// create makes the object of a manifest. exists is true when it is there
// already.
func create(ctx context.Context, resource dynamic.ResourceInterface, m *manifest, owner metav1.OwnerReference) (made *unstructured.Unstructured, exists bool, err error) {
	object := m.required.DeepCopy()
	object.SetLabels(withoutRemovals(object.GetLabels()))
	object.SetAnnotations(withoutRemovals(object.GetAnnotations()))
	if m.owned {
		object.SetOwnerReferences(append(object.GetOwnerReferences(), owner))
	}
	made, err = resource.Create(ctx, object, metav1.CreateOptions{FieldManager: work.DefaultFieldManager})
	return made, apierrors.IsAlreadyExists(err), err
}

func (o *objects) createOnly(ctx context.Context, resource dynamic.ResourceInterface, m *manifest, owner metav1.OwnerReference) (*unstructured.Unstructured, error) {
	live, err := resource.Get(ctx, m.meta.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		made, exists, err := create(ctx, resource, m, owner)
		if !exists {
			return made, err
		}
		live, err = resource.Get(ctx, m.meta.Name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
	} else if err != nil {
		return nil, err
	}
	return setOwner(ctx, resource, live, owner, m.owned)
}

// update creates the object or replaces what it has, except for its metadata,
// which is merged. Where the manifest's fields are as the manifest says, fields
// that it does not name are the server's and others' business.
func (o *objects) update(ctx context.Context, resource dynamic.ResourceInterface, m *manifest, owner metav1.OwnerReference, changed bool) (*unstructured.Unstructured, error) {
	live, err := resource.Get(ctx, m.meta.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		made, exists, err := create(ctx, resource, m, owner)
		if !exists {
			return made, err
		}
		live, err = resource.Get(ctx, m.meta.Name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
	} else if err != nil {
		return nil, err
	}
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		want := merged(live, m.required, owner, m.owned)
		if apiequality.Semantic.DeepEqual(want.Object["metadata"], live.Object["metadata"]) && bodyHolds(live, m.required, changed) {
			return nil
		}
		updated, err := resource.Update(ctx, want, metav1.UpdateOptions{FieldManager: work.DefaultFieldManager})
		if apierrors.IsConflict(err) {
			if fresh, getErr := resource.Get(ctx, m.meta.Name, metav1.GetOptions{}); getErr == nil {
				live = fresh
			}
		}
		if err == nil {
			live = updated
		}
		return err
	})
	return live, err
}

// bodyHolds reports whether all but metadata and status is as required. With
// exact set, the object may have no further fields either.
func bodyHolds(live, required *unstructured.Unstructured, exact bool) bool {
	for k, v := range required.Object {
		if k == "metadata" || k == "status" {
			continue
		}
		if exact && !apiequality.Semantic.DeepEqual(v, live.Object[k]) || !contains(live.Object[k], v) {
			return false
		}
	}
	if exact {
		for k := range live.Object {
			if _, ok := required.Object[k]; !ok && k != "metadata" && k != "status" {
				return false
			}
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

// merged is the live object with the body of the required one and the metadata
// of both.
func merged(live, required *unstructured.Unstructured, owner metav1.OwnerReference, owned bool) *unstructured.Unstructured {
	want := required.DeepCopy()
	if status, ok := live.Object["status"]; ok {
		want.Object["status"] = status
	}
	metadata := live.DeepCopy().Object["metadata"]
	want.Object["metadata"] = metadata
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
	return want
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

// setOwner adds or removes the owner of an object, and nothing else.
func setOwner(ctx context.Context, resource dynamic.ResourceInterface, live *unstructured.Unstructured, owner metav1.OwnerReference, owned bool) (*unstructured.Unstructured, error) {
	refs, changed := withOwner(live.GetOwnerReferences(), owner, owned)
	if !changed {
		return live, nil
	}
	if refs == nil {
		refs = []metav1.OwnerReference{}
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": live.GetUID(), "resourceVersion": live.GetResourceVersion(), "ownerReferences": refs,
	}})
	if err != nil {
		return nil, err
	}
	return resource.Patch(ctx, live.GetName(), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: work.DefaultFieldManager})
}

func (o *objects) serverSideApply(ctx context.Context, resource dynamic.ResourceInterface, m *manifest, owner metav1.OwnerReference) (*unstructured.Unstructured, error) {
	config := workv1.ServerSideApplyConfig{}
	if m.strategy.ServerSideApply != nil {
		config = *m.strategy.ServerSideApply
	}
	if config.FieldManager == "" {
		config.FieldManager = work.DefaultFieldManager
	}
	object := m.required
	if len(config.IgnoreFields) > 0 {
		live, err := resource.Get(ctx, m.meta.Name, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, err
		}
		if err != nil {
			live = nil
		}
		if object, err = withoutIgnored(m.required, config.IgnoreFields, live != nil); err != nil {
			return live, fmt.Errorf("%w: %w", errIgnoreFields, err)
		}
		if live != nil && live.GetAnnotations()[work.SpecHashAnnotation] == object.GetAnnotations()[work.SpecHashAnnotation] {
			return setOwner(ctx, resource, live, owner, m.owned)
		}
	}
	data, err := json.Marshal(object.Object)
	if err != nil {
		return nil, err
	}
	live, err := resource.Patch(ctx, m.meta.Name, types.ApplyPatchType, data, metav1.PatchOptions{FieldManager: config.FieldManager, Force: &config.Force})
	if apierrors.IsConflict(err) {
		return nil, fmt.Errorf("%w: %w", errApplyConflict, err)
	}
	if err != nil {
		return nil, err
	}
	return setOwner(ctx, resource, live, owner, m.owned)
}

// get reads an object; nil when it does not exist.
func (o *objects) get(ctx context.Context, gvr schema.GroupVersionResource, namespace, name string) (*unstructured.Unstructured, error) {
	live, err := o.resource(gvr, namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return live, err
}
