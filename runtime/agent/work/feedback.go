package work

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/jsonpath"
	"k8s.io/utils/ptr"

	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// feedback is what a work is to be told of an object's status.
type feedback struct {
	values []workv1.FeedbackValue
	err    error
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
// beside the error about what cannot.
func readFeedback(rules []workv1.FeedbackRule, object *unstructured.Unstructured) feedback {
	var out feedback
	var problems []error
	for _, r := range rules {
		paths := r.JSONPaths
		if r.Type == workv1.FeedbackTypeWellKnownStatus {
			gvk := object.GroupVersionKind()
			known, ok := wellKnown[gvk]
			if !ok {
				problems = append(problems, fmt.Errorf("cannot find the wellknown statuses for resource with gvk %s", gvk))
				continue
			}
			paths = known
		}
		for _, p := range paths {
			value, err := evaluate(p, object)
			if err != nil {
				problems = append(problems, err)
			} else if value != nil {
				out.values = append(out.values, workv1.FeedbackValue{Name: p.Name, Value: *value})
			}
		}
	}
	out.err = errors.Join(problems...)
	return out
}

// evaluate reads one value; nil when the object has none there.
func evaluate(p workv1.JSONPath, object *unstructured.Unstructured) (*workv1.FieldValue, error) {
	if p.Version != "" && p.Version != object.GroupVersionKind().Version {
		return nil, fmt.Errorf("the path %q is for version %s, and the object is of version %s", p.Name, p.Version, object.GroupVersionKind().Version)
	}
	path := p.Path
	if !strings.HasPrefix(path, "{") {
		path = "{" + path + "}"
	}
	j := jsonpath.New(p.Name).AllowMissingKeys(true)
	if err := j.Parse(path); err != nil {
		return nil, fmt.Errorf("the path %q (%s) cannot be read: %w", p.Name, p.Path, err)
	}
	results, err := j.FindResults(object.Object)
	if err != nil {
		return nil, fmt.Errorf("the path %q (%s): %w", p.Name, p.Path, err)
	}
	if len(results) == 0 || len(results[0]) == 0 {
		return nil, nil
	}
	return fieldValue(p.Name, results[0][0])
}

func fieldValue(name string, v reflect.Value) (*workv1.FieldValue, error) {
	if !v.IsValid() || !v.CanInterface() || v.Interface() == nil {
		return nil, nil
	}
	switch x := v.Interface().(type) {
	case int64:
		return &workv1.FieldValue{Type: workv1.ValueTypeInteger, Integer: &x}, nil
	case string:
		return &workv1.FieldValue{Type: workv1.ValueTypeString, String: &x}, nil
	case bool:
		return &workv1.FieldValue{Type: workv1.ValueTypeBoolean, Boolean: ptr.To(x)}, nil
	default:
		return nil, fmt.Errorf("the type %T of the value for %s is not found", x, name)
	}
}
