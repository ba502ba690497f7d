package manifest

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/muster-fleet/terraform-provider-muster/internal/fieldpath"
	"github.com/muster-fleet/terraform-provider-muster/internal/workcheck"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// Rest is a manifest's object without the fields that are to be left alone once
// the object is there.
type Rest struct {
	required, without *unstructured.Unstructured
	// Hash is that of the rest. While it stays the same nothing is applied.
	Hash string
}

// WithoutIgnored takes the fields that are to be left alone from an object. What
// the paths to them cost is taken from the budget.
func WithoutIgnored(
	ctx context.Context, required *unstructured.Unstructured, ignored []workv1.IgnoreField, budget *fieldpath.Budget,
) (*Rest, error) {
	rest := required.DeepCopy()
	paths := 0
	for _, f := range ignored {
		// Fields that are ignored when they change on the cluster are applied
		// whenever the manifest changes.
		if f.Condition == workv1.IgnoreFieldsConditionOnSpokeChange {
			continue
		}
		if paths += len(f.JSONPointers) + len(f.JSONPaths) + len(f.JQPathExpressions); paths > workcheck.MaxPaths {
			return nil, fmt.Errorf("there are more than %d paths: ignore fewer fields", workcheck.MaxPaths)
		}
		for _, p := range f.JSONPointers {
			if err := removePointer(ctx, rest.Object, p, budget); err != nil {
				return nil, err
			}
		}
		for _, p := range f.JSONPaths {
			if err := removePath(ctx, rest.Object, p, budget); err != nil {
				return nil, err
			}
		}
		for _, p := range f.JQPathExpressions {
			if err := removeJQPath(ctx, rest.Object, p, budget); err != nil {
				return nil, err
			}
		}
	}
	// The hash is upstream's, so that taking over from its agent writes nothing.
	sum := md5.Sum(fmt.Appendf(nil, "&{%v}", rest.Object))
	return &Rest{required, rest, hex.EncodeToString(sum[:])}, nil
}

// ToApply is the object to apply, with the hash of the rest in an annotation: the
// rest once the object exists, before that all of it. A new object has the hash
// that it has from then on, so that it is not applied a second time, without the
// fields.
func (r *Rest) ToApply(exists bool) *unstructured.Unstructured {
	out := r.without
	if !exists {
		out = r.required.DeepCopy()
	}
	annotations := out.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[work.SpecHashAnnotation] = r.Hash
	out.SetAnnotations(annotations)
	return out
}
