package applier

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/failure"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/manifest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

func (o *Applier) serverSideApply(
	ctx context.Context, resource dynamic.ResourceInterface, m *manifest.Manifest, owner metav1.OwnerReference,
) (Result, error) {
	config := workv1.ServerSideApplyConfig{}
	if m.Strategy.ServerSideApply != nil {
		config = *m.Strategy.ServerSideApply
	}
	if config.FieldManager == "" {
		config.FieldManager = work.DefaultFieldManager
	}
	object := m.Required
	var before *unstructured.Unstructured
	if len(config.IgnoreFields) > 0 {
		var err error
		if before, err = o.Get(ctx, m.GVR, m.Meta.Namespace, m.Meta.Name); err != nil {
			return Result{}, err
		}
		if object, err = manifest.WithoutIgnored(m.Required, config.IgnoreFields, before != nil); err != nil {
			return Result{Live: before}, fmt.Errorf("%w: %w", failure.ErrIgnoreFields, err)
		}
		if before != nil && before.GetAnnotations()[work.SpecHashAnnotation] == object.GetAnnotations()[work.SpecHashAnnotation] {
			owned, err := setOwner(ctx, resource, before, owner, m.Owned)
			return Result{owned, owned != before}, err
		}
	}
	data, err := json.Marshal(object.Object)
	if err != nil {
		return Result{}, err
	}
	apply := func() (*unstructured.Unstructured, error) {
		return resource.Patch(ctx, m.Meta.Name, types.ApplyPatchType, data,
			metav1.PatchOptions{FieldManager: config.FieldManager, Force: &config.Force})
	}
	live, err := apply()
	switch again, owning := o.mineAgain(ctx, resource, m, live, err, config, owner); {
	case owning != nil:
		return Result{}, owning
	case again:
		live, err = apply()
	}
	if apierrors.IsConflict(err) {
		return Result{}, failure.Conflict(err)
	}
	if err != nil {
		return Result{}, err
	}
	live, err = setOwner(ctx, resource, live, owner, m.Owned)
	return Result{live, true}, err
}

// mineAgain gives the applies what the agent has written by another strategy, after
// an apply that conflicted with it, or that left it beside its own. It reports
// whether the apply has to be repeated.
func (o *Applier) mineAgain(
	ctx context.Context, resource dynamic.ResourceInterface, m *manifest.Manifest, applied *unstructured.Unstructured, applying error,
	config workv1.ServerSideApplyConfig, owner metav1.OwnerReference,
) (bool, error) {
	live := applied
	switch {
	case apierrors.IsConflict(applying):
		var err error
		if live, err = o.Get(ctx, m.GVR, m.Meta.Namespace, m.Meta.Name); err != nil || live == nil {
			return false, err
		}
	case applying != nil:
		return false, nil //nolint:nilerr // The caller tells.
	}
	updated, err := ownEarlierWrites(ctx, resource, live, config.FieldManager, owner, len(config.IgnoreFields) == 0)
	return updated != nil, err
}
