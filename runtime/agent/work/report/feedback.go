package report

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/internal/fieldpath"
	"github.com/muster-fleet/terraform-provider-muster/internal/workcheck"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// Feedback is what is reported to a work of an object's status.
type Feedback struct {
	Values []workv1.FeedbackValue
	Err    error
}

// wellKnown are the paths that stand for the status of a kind.
var wellKnown = map[schema.GroupVersionKind][]workv1.JSONPath{
	{Group: "apps", Version: "v1", Kind: "Deployment"}: {
		{Name: "ReadyReplicas", Path: ".status.readyReplicas"},
		{Name: "Replicas", Path: ".status.replicas"},
		{Name: "AvailableReplicas", Path: ".status.availableReplicas"},
	},
	{Group: "apps", Version: "v1", Kind: "DaemonSet"}: {
		{Name: "NumberReady", Path: ".status.numberReady"},
		{Name: "DesiredNumberScheduled", Path: ".status.desiredNumberScheduled"},
		{Name: "NumberAvailable", Path: ".status.numberAvailable"},
	},
	{Group: "batch", Version: "v1", Kind: "Job"}: {
		{Name: "JobComplete", Path: `.status.conditions[?(@.type=="Complete")].status`},
		{Name: "JobSucceeded", Path: ".status.succeeded"},
	},
	{Version: "v1", Kind: "Pod"}: {
		{Name: "PodReady", Path: `.status.conditions[?(@.type=="Ready")].status`},
		{Name: "PodPhase", Path: ".status.phase"},
	},
}

// readFeedback evaluates the rules on an object. What can be read is returned
// beside the error about what cannot. Values that are no plain text, integer or
// truth value are reported as JSON of at most maxRaw bytes; with 0 they are not
// reported. What the paths cost is taken from the budget.
func readFeedback(
	ctx context.Context, rules []workv1.FeedbackRule, object *unstructured.Unstructured, maxRaw int,
	budget *fieldpath.Budget,
) Feedback {
	ctx, end := context.WithTimeoutCause(ctx, pathsTimeout, errPathsTimeout)
	defer end()
	var out Feedback
	var problems []error
	read := 0
	for _, r := range rules {
		paths := r.JSONPaths
		if r.Type == workv1.FeedbackTypeWellKnownStatus {
			gvk := object.GroupVersionKind()
			known, ok := wellKnown[gvk]
			if !ok {
				problems = append(problems,
					fmt.Errorf("cannot find the wellknown statuses for resource with gvk %s", gvk))
				continue
			}
			paths = known
		}
		for _, p := range paths {
			if read++; read > workcheck.MaxPaths {
				problems = append(problems,
					fmt.Errorf("there are more than %d paths, and the others are not read", workcheck.MaxPaths))
				break
			}
			value, err := evaluate(ctx, p, object, maxRaw, budget)
			switch {
			case err != nil:
				problems = append(problems, err)
				if errors.Is(err, fieldpath.ErrLimit) || ctx.Err() != nil {
					problems = append(problems, errors.New("the paths after it are not read"))
					out.Err = errors.Join(problems...)
					return out
				}
			case value != nil:
				out.Values = append(out.Values, workv1.FeedbackValue{Name: p.Name, Value: *value})
			}
		}
	}
	out.Err = errors.Join(problems...)
	return out
}

// evaluate reads one value; nil when the object has none there.
func evaluate(
	ctx context.Context, p workv1.JSONPath, object *unstructured.Unstructured, maxRaw int, budget *fieldpath.Budget,
) (*workv1.FieldValue, error) {
	if p.Version != "" && p.Version != object.GroupVersionKind().Version {
		return nil, fmt.Errorf("the path %q is for version %s, and the object is of version %s",
			p.Name, p.Version, object.GroupVersionKind().Version)
	}
	path, err := fieldpath.ParseJSONPath(p.Path)
	if err != nil {
		return nil, fmt.Errorf("the path %q (%s) cannot be read: %w", p.Name, p.Path, err)
	}
	results, err := path.Find(ctx, object.Object, budget)
	if err != nil {
		return nil, fmt.Errorf("the path %q (%s): %w", p.Name, p.Path, err)
	}
	found := slices.DeleteFunc(results, func(v any) bool { return v == nil })
	switch {
	case len(found) == 0:
		return nil, nil
	case len(found) > 1 && maxRaw > 0:
		return rawValue(p.Name, found, maxRaw)
	}
	return fieldValue(p.Name, found[0], maxRaw)
}

func fieldValue(name string, v any, maxRaw int) (*workv1.FieldValue, error) {
	switch x := v.(type) {
	case int64:
		return &workv1.FieldValue{Type: workv1.ValueTypeInteger, Integer: &x}, nil
	case string:
		return &workv1.FieldValue{Type: workv1.ValueTypeString, String: &x}, nil
	case bool:
		return &workv1.FieldValue{Type: workv1.ValueTypeBoolean, Boolean: &x}, nil
	}
	if maxRaw == 0 {
		return nil, fmt.Errorf("the type %T of the value for %s is not found", v, name)
	}
	return rawValue(name, v, maxRaw)
}

func rawValue(name string, v any, limit int) (*workv1.FieldValue, error) {
	tooLong := fmt.Errorf("the value for %s takes more bytes as JSON than the %d that --max-json-raw-length allows",
		name, limit)
	if leastJSON(v, limit) > limit {
		return nil, tooLong
	}
	data, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("the value for %s cannot be written as JSON: %w", name, err)
	}
	if len(data) > limit {
		return nil, tooLong
	}
	return &workv1.FieldValue{Type: workv1.ValueTypeJSONRaw, JSONRaw: ptr.To(string(data))}, nil
}

// leastJSON is how many bytes a value takes as JSON at the least, up to the first
// count beyond limit: what would be too long is not written.
func leastJSON(v any, limit int) int {
	n := 1
	switch v := v.(type) {
	case string:
		n += 1 + len(v)
	case []any:
		for i := 0; i < len(v) && n <= limit; i++ {
			n += 1 + leastJSON(v[i], limit-n)
		}
	case map[string]any:
		for k, x := range v {
			if n > limit {
				break
			}
			n += 4 + len(k) + leastJSON(x, limit-n)
		}
	}
	return n
}
