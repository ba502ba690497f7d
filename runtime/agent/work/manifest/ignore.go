package manifest

import (
	"crypto/md5"
	"encoding/hex"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/muster-fleet/terraform-provider-muster/internal/workcheck"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// WithoutIgnored is the object to apply: without the fields that are to be left
// alone once the object is there, and with the hash of the rest in an
// annotation. While that stays the same nothing is applied. The hash of a new
// object is the one that it has from then on, so that it is not applied a
// second time, without the fields.
func WithoutIgnored(required *unstructured.Unstructured, ignored []workv1.IgnoreField, exists bool) (*unstructured.Unstructured, error) {
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
			if err := removePointer(rest.Object, p); err != nil {
				return nil, err
			}
		}
		for _, p := range f.JSONPaths {
			if err := removePath(rest.Object, p); err != nil {
				return nil, err
			}
		}
		for _, p := range f.JQPathExpressions {
			if err := removeJQPath(rest, p); err != nil {
				return nil, err
			}
		}
	}
	// The hash is upstream's, so that taking over from its agent writes nothing.
	sum := md5.Sum(fmt.Appendf(nil, "&{%v}", rest.Object))
	out := rest
	if !exists {
		out = required.DeepCopy()
	}
	annotations := out.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[work.SpecHashAnnotation] = hex.EncodeToString(sum[:])
	out.SetAnnotations(annotations)
	return out, nil
}
