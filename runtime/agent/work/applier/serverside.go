package applier

import (
	"context"
	"encoding/json"

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
