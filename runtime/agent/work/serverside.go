package work

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

func (o *objects) serverSideApply(ctx context.Context, resource dynamic.ResourceInterface, m *manifest, owner metav1.OwnerReference) (result, error) {
	config := workv1.ServerSideApplyConfig{}
	if m.strategy.ServerSideApply != nil {
		config = *m.strategy.ServerSideApply
	}
	if config.FieldManager == "" {
		config.FieldManager = work.DefaultFieldManager
	}
	object := m.required
	var before *unstructured.Unstructured
	if len(config.IgnoreFields) > 0 {
		var err error
		if before, err = o.get(ctx, m.gvr, m.meta.Namespace, m.meta.Name); err != nil {
			return result{}, err
		}
		if object, err = withoutIgnored(m.required, config.IgnoreFields, before != nil); err != nil {
			return result{live: before}, fmt.Errorf("%w: %w", errIgnoreFields, err)
		}
		if before != nil && before.GetAnnotations()[work.SpecHashAnnotation] == object.GetAnnotations()[work.SpecHashAnnotation] {
			owned, err := setOwner(ctx, resource, before, owner, m.owned)
			return result{owned, owned != before}, err
		}
	}
	data, err := json.Marshal(object.Object)
	if err != nil {
		return result{}, err
	}
	live, err := resource.Patch(ctx, m.meta.Name, types.ApplyPatchType, data, metav1.PatchOptions{FieldManager: config.FieldManager, Force: &config.Force})
	if apierrors.IsConflict(err) {
		return result{}, applyConflictError{err}
	}
	if err != nil {
		return result{}, err
	}
	live, err = setOwner(ctx, resource, live, owner, m.owned)
	return result{live, true}, err
}
