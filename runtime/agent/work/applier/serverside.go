package applier

import (
	"context"
	"encoding/json"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/manifest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

func (o *Applier) serverSideApply(
	ctx context.Context, resource dynamic.ResourceInterface, m *manifest.Manifest, want Desired,
) (Result, error) {
	config := workv1.ServerSideApplyConfig{}
	if m.Strategy.ServerSideApply != nil {
		config = *m.Strategy.ServerSideApply
	}
	if config.FieldManager == "" {
		config.FieldManager = work.DefaultFieldManager
	}
	object, owner := m.Required, want.Owner
	if want.Rest != nil {
		before, err := o.Get(ctx, m.GVR, m.Meta.Namespace, m.Meta.Name)
		if err != nil {
			return Result{}, err
		}
		if before != nil && before.GetAnnotations()[work.SpecHashAnnotation] == want.Rest.Hash {
			owned, err := setOwner(ctx, resource, before, owner, m.Owned)
			return Result{Live: owned, Wrote: owned != before}, err
		}
		object = want.Rest.ToApply(before != nil)
	}
	data, err := json.Marshal(object.Object)
	if err != nil {
		return Result{}, err
	}
	before, known := o.versions.Version(m.GVR, m.Key())
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
		return Result{}, manifest.Conflict(err)
	}
	if err != nil {
		return Result{}, err
	}
	if live, err = setOwner(ctx, resource, live, owner, m.Owned); err != nil {
		return Result{}, err
	}
	return Result{Live: live, Wrote: hasWritten(live.GetResourceVersion(), before, known)}, nil
}

// hasWritten reports whether an apply has changed its object, which the server does
// not say: the version is another than before, or that one is not known.
func hasWritten(after, before string, known bool) bool { return !known || after != before }

// mineAgain gives the applies what the agent has written by another strategy, after
// an apply that conflicted with it, or that left it beside its own. It reports
// whether the apply has to be repeated.
func (o *Applier) mineAgain(
	ctx context.Context, resource dynamic.ResourceInterface, m *manifest.Manifest,
	applied *unstructured.Unstructured, applying error, config workv1.ServerSideApplyConfig, owner metav1.OwnerReference,
) (bool, error) {
	live := applied
	switch {
	case apierrors.IsConflict(applying):
		var err error
		if live, err = o.Get(ctx, m.GVR, m.Meta.Namespace, m.Meta.Name); err != nil || live == nil {
			return false, err
		}
	case applying != nil:
		return false, nil //nolint:nilerr // the caller reports it
	}
	updated, err := o.ownEarlierWrites(ctx, resource, live, config.FieldManager, owner, len(config.IgnoreFields) == 0)
	return updated != nil, err
}
