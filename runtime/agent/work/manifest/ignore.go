package manifest

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

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

// removePointer removes what a JSON pointer (RFC 6901) leads to, if anything. A
// JSON patch could do that, but it works on the text: the object would have to be
// written and read again in each pass.
func removePointer(ctx context.Context, object map[string]any, p string, budget *fieldpath.Budget) error {
	rest, ok := strings.CutPrefix(p, "/")
	if !ok || rest == "" {
		return fmt.Errorf("the JSON pointer %q does not name a field: write one such as /spec/replicas", p)
	}
	parts := strings.Split(rest, "/")
	for i := range parts {
		parts[i] = strings.ReplaceAll(strings.ReplaceAll(parts[i], "~1", "/"), "~0", "~")
	}
	_, looked := without(object, parts)
	if err := budget.Take(ctx, looked); err != nil {
		return fmt.Errorf("the JSON pointer %q: %w", p, err)
	}
	return nil
}

// without returns a value without what the path in it leads to, and how many
// values it has looked at.
func without(value any, path []string) (rest any, looked int) {
	switch v := value.(type) {
	case map[string]any:
		below, ok := v[path[0]]
		switch {
		case !ok:
		case len(path) == 1:
			delete(v, path[0])
		default:
			v[path[0]], looked = without(below, path[1:])
		}
	case []any:
		i, err := strconv.Atoi(path[0])
		switch {
		case err != nil || i < 0 || i >= len(v):
		case len(path) == 1:
			return append(v[:i:i], v[i+1:]...), len(v)
		default:
			v[i], looked = without(v[i], path[1:])
		}
	}
	return value, looked + 1
}

// removePath removes the field that ends a JSON path from all that the path
// before it leads to. Items of lists cannot be removed this way.
func removePath(ctx context.Context, object map[string]any, p string, budget *fieldpath.Budget) error {
	parent, field, err := splitPath(p)
	if err != nil {
		return err
	}
	if parent == "" {
		delete(object, field)
		return nil
	}
	path, err := fieldpath.ParseJSONPath(parent)
	if err != nil {
		return fmt.Errorf("the JSON path %q cannot be read: %w", p, err)
	}
	holders, err := path.Find(ctx, object, budget)
	if err != nil {
		return fmt.Errorf("the JSON path %q: %w", p, err)
	}
	for _, v := range holders {
		if holder, ok := v.(map[string]any); ok {
			delete(holder, field)
		}
	}
	return nil
}

// splitPath splits a JSON path into the field at its end and what comes before.
func splitPath(p string) (parent, field string, err error) {
	path := strings.TrimPrefix(strings.TrimSuffix(strings.TrimPrefix(p, "{"), "}"), "$")
	bad := fmt.Errorf("the JSON path %q does not end in the name of a field: "+
		"write one such as .spec.replicas or .spec.template.spec.containers[*].image", p)
	if quoted, ok := strings.CutSuffix(path, "']"); ok {
		i := strings.LastIndex(quoted, "['")
		if i < 0 || i+2 == len(quoted) {
			return "", "", bad
		}
		return quoted[:i], quoted[i+2:], nil
	}
	// A dot after a backslash belongs to the name.
	i := len(path)
	for {
		i = strings.LastIndex(path[:i], ".")
		if i < 0 {
			return "", "", bad
		}
		if i == 0 || path[i-1] != '\\' {
			break
		}
	}
	field = strings.ReplaceAll(path[i+1:], `\.`, ".")
	if field == "" || strings.ContainsAny(field, "[]*?()@'\"") {
		return "", "", bad
	}
	return path[:i], field, nil
}

// removeJQPath removes what a jq path leads to. Other than a JSON path, it can
// remove items of lists.
func removeJQPath(ctx context.Context, object map[string]any, path string, budget *fieldpath.Budget) error {
	p, err := fieldpath.ParseJQ(path)
	if err != nil {
		return fmt.Errorf("the jq path expression %q cannot be read: %w", path, err)
	}
	if err := p.Delete(ctx, object, budget); err != nil {
		return fmt.Errorf("the jq path expression %q: %w", path, err)
	}
	return nil
}
