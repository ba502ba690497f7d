package work

import (
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// withoutIgnored is the object to apply: without the fields that are to be left
// alone once the object is there, and with the hash of the rest in an
// annotation. While that stays the same nothing is applied.
func withoutIgnored(required *unstructured.Unstructured, ignored []workv1.IgnoreField, exists bool) (*unstructured.Unstructured, error) {
	out := required.DeepCopy()
	for _, f := range ignored {
		// Fields that are ignored when they change on the cluster are applied
		// whenever the manifest changes.
		if f.Condition == workv1.IgnoreFieldsConditionOnSpokeChange || !exists {
			continue
		}
		for _, p := range f.JSONPointers {
			path, err := pointer(p)
			if err != nil {
				return nil, err
			}
			unstructured.RemoveNestedField(out.Object, path...)
		}
		for _, p := range f.JSONPaths {
			path, err := simplePath(p)
			if err != nil {
				return nil, err
			}
			unstructured.RemoveNestedField(out.Object, path...)
		}
		if len(f.JQPathExpressions) > 0 {
			return nil, fmt.Errorf("jqPathExpressions %q are not supported yet: use jsonPointers", f.JQPathExpressions)
		}
	}
	data, err := json.Marshal(out.Object)
	if err != nil {
		return nil, err
	}
	sum := md5.Sum(data)
	annotations := out.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[work.SpecHashAnnotation] = hex.EncodeToString(sum[:])
	out.SetAnnotations(annotations)
	return out, nil
}

// pointer splits a JSON pointer (RFC 6901).
func pointer(p string) ([]string, error) {
	rest, ok := strings.CutPrefix(p, "/")
	if !ok || rest == "" {
		return nil, fmt.Errorf("the JSON pointer %q does not name a field: write one such as /spec/replicas", p)
	}
	parts := strings.Split(rest, "/")
	for i := range parts {
		parts[i] = strings.ReplaceAll(strings.ReplaceAll(parts[i], "~1", "/"), "~0", "~")
	}
	return parts, nil
}

// simplePath splits a JSON path that goes through fields only.
func simplePath(p string) ([]string, error) {
	trimmed := strings.TrimPrefix(strings.TrimPrefix(strings.Trim(p, "{}"), "$"), ".")
	if trimmed == "" || strings.ContainsAny(trimmed, "[]*?()") {
		return nil, fmt.Errorf("the JSON path %q does not lead through fields only, and others are not supported yet: use jsonPointers", p)
	}
	return strings.Split(trimmed, "."), nil
}
