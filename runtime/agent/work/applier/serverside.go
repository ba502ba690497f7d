package applier

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/manifest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

func (t target) serverSideApply(ctx context.Context) (Result, error) {
	config := workv1.ServerSideApplyConfig{}
	if t.m.Strategy.ServerSideApply != nil {
		config = *t.m.Strategy.ServerSideApply
	}
	if config.FieldManager == "" {
		config.FieldManager = work.DefaultFieldManager
	}
	object := t.m.Required
	if rest := t.want.Rest; rest != nil {
		before, err := t.read(ctx)
		if err != nil {
			return Result{}, err
		}
		if before != nil && before.GetAnnotations()[work.SpecHashAnnotation] == rest.Hash {
			return t.own(ctx, before)
		}
		object = rest.ToApply(before != nil)
	}
	data, err := json.Marshal(object.Object)
	if err != nil {
		return Result{}, err
	}
	before, known := t.versions.Version(t.m.GVR, t.m.Key())
	apply := func() (*unstructured.Unstructured, error) {
		return t.at.Patch(ctx, t.m.Meta.Name, types.ApplyPatchType, data,
			metav1.PatchOptions{FieldManager: config.FieldManager, Force: &config.Force})
	}
	live, err := apply()
	if t.dry && isConflictWith(err, work.DefaultFieldManager) {
		// The agent would give the applies what its updates own, and no dry run shows that.
		config.Force = true
		live, err = apply()
	}
	switch again, owning := t.mineAgain(ctx, live, err, config); {
	case owning != nil:
		return Result{}, owning
	case again:
		live, err = apply()
	}
	if apierrors.IsConflict(err) {
		return Result{}, manifest.Conflict(err)
	}
	if err != nil {
		return Result{}, err
	}
	result, err := t.own(ctx, live)
	if err != nil {
		return Result{}, err
	}
	result.Wrote = hasWritten(result.Live.GetResourceVersion(), before, known)
	return result, nil
}

// hasWritten reports whether an apply has changed its object, which the server does
// not say: the version is another than before, or that one is not known.
func hasWritten(after, before string, known bool) bool { return !known || after != before }

// mineAgain gives the applies what the agent has written by another strategy, after
// an apply that conflicted with it, or that left it beside its own. It reports
// whether the apply has to be repeated.
func (t target) mineAgain(
	ctx context.Context, applied *unstructured.Unstructured, applying error, config workv1.ServerSideApplyConfig,
) (bool, error) {
	live := applied
	switch {
	case t.dry:
		return false, nil
	case apierrors.IsConflict(applying):
		var err error
		if live, err = t.read(ctx); err != nil || live == nil {
			return false, err
		}
	case applying != nil:
		return false, nil //nolint:nilerr // the caller reports it
	}
	updated, err := t.ownEarlierWrites(ctx, live, config.FieldManager, len(config.IgnoreFields) == 0)
	return updated != nil, err
}

// Server-side apply takes what the agent has written by other strategies for
// somebody else's: its updates and its applies are two managers of one name. An
// object whose strategy changes would conflict with the agent itself, and keep the
// fields that leave its manifest.

// ownEarlierWrites gives what the agent's updates own of an object to the manager
// of its applies, or to nobody where keep is false, so that a field that the apply
// leaves out is not removed. Owners stay: they are always written by updates. It
// returns nil when there is nothing to give, or when another work holds the object.
func (t target) ownEarlierWrites(
	ctx context.Context, live *unstructured.Unstructured, manager string, keep bool,
) (*unstructured.Unstructured, error) {
	if _, others := owners(live.GetOwnerReferences(), t.want.Owner.UID); others {
		return nil, nil
	}
	entries, changed, err := earlierWritesOwned(live.GetManagedFields(), manager, keep, t.clock.Now())
	if err != nil || !changed {
		return nil, err
	}
	patch, err := json.Marshal([]map[string]any{
		{"op": "replace", "path": "/metadata/managedFields", "value": entries},
		{"op": "replace", "path": "/metadata/resourceVersion", "value": live.GetResourceVersion()},
	})
	if err != nil {
		return nil, err
	}
	updated, err := t.at.Patch(ctx, live.GetName(), types.JSONPatchType, patch,
		metav1.PatchOptions{FieldManager: work.DefaultFieldManager})
	if apierrors.IsConflict(err) {
		return nil, nil // Somebody writes meanwhile: the next pass over the work tries again.
	}
	return updated, err
}

// earlierWritesOwned is what ownEarlierWrites makes of an object's managed fields.
func earlierWritesOwned(
	entries []metav1.ManagedFieldsEntry, manager string, keep bool, now time.Time,
) ([]metav1.ManagedFieldsEntry, bool, error) {
	var out []metav1.ManagedFieldsEntry
	given := map[string]any{}
	apiVersion := ""
	for _, e := range entries {
		ours := e.Manager == work.DefaultFieldManager && e.Operation == metav1.ManagedFieldsOperationUpdate
		if !ours || e.Subresource != "" || e.FieldsV1 == nil {
			out = append(out, e)
			continue
		}
		fields := map[string]any{}
		if err := json.Unmarshal(e.FieldsV1.GetRawBytes(), &fields); err != nil {
			return nil, false, err
		}
		staying := ownersOf(fields)
		if len(fields) == 0 {
			out = append(out, e)
			continue
		}
		apiVersion = e.APIVersion
		union(given, fields)
		if staying != nil {
			raw, err := json.Marshal(staying)
			if err != nil {
				return nil, false, err
			}
			e.FieldsV1 = metav1.NewFieldsV1(string(raw))
			out = append(out, e)
		}
	}
	if apiVersion == "" {
		return entries, false, nil
	}
	if !keep {
		return out, true, nil
	}
	i := slices.IndexFunc(out, func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == manager && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == ""
	})
	if i < 0 {
		out = append(out, metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: apiVersion,
			FieldsType: "FieldsV1", Time: &metav1.Time{Time: now},
		})
		i = len(out) - 1
	}
	if e := out[i]; e.FieldsV1 != nil {
		applied := map[string]any{}
		if err := json.Unmarshal(e.FieldsV1.GetRawBytes(), &applied); err != nil {
			return nil, false, err
		}
		union(given, applied)
	}
	raw, err := json.Marshal(given)
	if err != nil {
		return nil, false, err
	}
	out[i].FieldsV1 = metav1.NewFieldsV1(string(raw))
	return out, true, nil
}

// ownersOf takes the owner references out of a set of fields, and returns them as
// a set; nil when there are none.
func ownersOf(fields map[string]any) map[string]any {
	metadata, _ := fields["f:metadata"].(map[string]any)
	refs, found := metadata["f:ownerReferences"]
	if !found {
		return nil
	}
	delete(metadata, "f:ownerReferences")
	if len(metadata) == 0 {
		delete(fields, "f:metadata")
	}
	return map[string]any{"f:metadata": map[string]any{"f:ownerReferences": refs}}
}

// union adds the fields of one set to another.
func union(into, from map[string]any) {
	for name, value := range from {
		there, both := into[name].(map[string]any)
		if fields, nested := value.(map[string]any); both && nested {
			union(there, fields)
			continue
		}
		into[name] = value
	}
}
