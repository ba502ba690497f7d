package report

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-fleet/terraform-provider-muster/internal/fieldpath"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// valueText is a value with its type, for comparison.
func valueText(v workv1.FeedbackValue) string {
	switch {
	case v.Value.Integer != nil:
		return fmt.Sprintf("%s=%s(%d)", v.Name, v.Value.Type, *v.Value.Integer)
	case v.Value.String != nil:
		return fmt.Sprintf("%s=%s(%s)", v.Name, v.Value.Type, *v.Value.String)
	case v.Value.Boolean != nil:
		return fmt.Sprintf("%s=%s(%t)", v.Name, v.Value.Type, *v.Value.Boolean)
	case v.Value.JSONRaw != nil:
		return fmt.Sprintf("%s=%s(%s)", v.Name, v.Value.Type, *v.Value.JSONRaw)
	}
	return v.Name + "=nothing"
}

func TestFeedbackByPaths(t *testing.T) {
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.org/v1", "kind": "Widget",
		"status": map[string]any{
			"count": int64(3), "zero": int64(0), "phase": "Ready", "empty": "", "ready": true, "ratio": 0.5, "nothing": nil,
			"parts": []any{map[string]any{"name": "a", "size": int64(1)}, map[string]any{"name": "b", "size": int64(2)}},
			"long":  strings.Repeat("x", 2000), "map": map[string]any{"k": strings.Repeat("y", 2000)},
		},
	}}
	const limit = 1024
	for name, x := range map[string]struct {
		path   workv1.JSONPath
		plain  string // without the gate; an error begins with !
		asJSON string // with the gate; empty means the same
	}{
		"integer":             {workv1.JSONPath{Path: ".status.count"}, "v=Integer(3)", ""},
		"zero":                {workv1.JSONPath{Path: ".status.zero"}, "v=Integer(0)", ""},
		"text":                {workv1.JSONPath{Path: ".status.phase"}, "v=String(Ready)", ""},
		"empty text":          {workv1.JSONPath{Path: ".status.empty"}, "v=String()", ""},
		"long text":           {workv1.JSONPath{Path: ".status.long"}, "v=String(" + strings.Repeat("x", 2000) + ")", ""},
		"truth":               {workv1.JSONPath{Path: ".status.ready"}, "v=Boolean(true)", ""},
		"null":                {workv1.JSONPath{Path: ".status.nothing"}, "", ""},
		"a missing field":     {workv1.JSONPath{Path: ".status.missing.deep"}, "", ""},
		"one of a list":       {workv1.JSONPath{Path: `.status.parts[?(@.name=="b")].size`}, "v=Integer(2)", ""},
		"several":             {workv1.JSONPath{Path: ".status.parts[*].name"}, "v=String(a)", `v=JsonRaw(["a","b"])`},
		"a fraction":          {workv1.JSONPath{Path: ".status.ratio"}, "!the type float64 of the value for v is not found", "v=JsonRaw(0.5)"},
		"a list":              {workv1.JSONPath{Path: ".status.parts"}, "!the type []interface {} of the value for v is not found", `v=JsonRaw([{"name":"a","size":1},{"name":"b","size":2}])`},
		"a map":               {workv1.JSONPath{Path: ".status.parts[0]"}, "!the type map[string]interface {} of the value for v is not found", `v=JsonRaw({"name":"a","size":1})`},
		"too long a map":      {workv1.JSONPath{Path: ".status.map"}, "!the type map[string]interface {}", "!the value for v takes more bytes as JSON than the 1024"},
		"the same version":    {workv1.JSONPath{Path: ".status.count", Version: "v1"}, "v=Integer(3)", ""},
		"another version":     {workv1.JSONPath{Path: ".status.count", Version: "v2"}, `!the path "v" is for version v2, and the object is of version v1`, ""},
		"braces":              {workv1.JSONPath{Path: "{.status.count}"}, "v=Integer(3)", ""},
		"what cannot be read": {workv1.JSONPath{Path: ".status[("}, `!the path "v" (.status[() cannot be read`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			x.path.Name = "v"
			rules := []workv1.FeedbackRule{{Type: workv1.FeedbackTypeJSONPaths, JSONPaths: []workv1.JSONPath{x.path, {Name: "other", Path: ".status.phase"}}}}
			if x.asJSON == "" {
				x.asJSON = x.plain
			}
			for max, want := range map[int]string{0: x.plain, limit: x.asJSON} {
				got := readFeedback(context.Background(), rules, object, max, fieldpath.NewBudget())
				problem, failed := strings.CutPrefix(want, "!")
				if failed {
					want = ""
					if got.Err == nil || !strings.HasPrefix(got.Err.Error(), problem) {
						t.Errorf("with %d bytes of JSON: error %v, want %q", max, got.Err, problem)
					}
				} else if got.Err != nil {
					t.Errorf("with %d bytes of JSON: %v", max, got.Err)
				}
				var texts []string
				for _, v := range got.Values {
					texts = append(texts, valueText(v))
				}
				// What can be read is reported beside what cannot.
				if text := strings.TrimPrefix(strings.Join(texts, " ")+" ", " "); strings.TrimSpace(text) != strings.TrimSpace(want+" other=String(Ready)") {
					t.Errorf("with %d bytes of JSON: %s, want %s", max, text, want)
				}
			}
		})
	}
}

func TestWellKnownFeedback(t *testing.T) {
	for name, x := range map[string]struct {
		gvk    schema.GroupVersionKind
		status map[string]any
		want   string
	}{
		"Deployment":    {schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, map[string]any{"readyReplicas": int64(1), "replicas": int64(3), "availableReplicas": int64(2)}, "ReadyReplicas=Integer(1) Replicas=Integer(3) AvailableReplicas=Integer(2)"},
		"one at zero":   {schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, map[string]any{"replicas": int64(3)}, "Replicas=Integer(3)"},
		"DaemonSet":     {schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "DaemonSet"}, map[string]any{"numberReady": int64(1), "desiredNumberScheduled": int64(3), "numberAvailable": int64(2)}, "NumberReady=Integer(1) DesiredNumberScheduled=Integer(3) NumberAvailable=Integer(2)"},
		"Job":           {schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}, map[string]any{"succeeded": int64(1), "conditions": []any{map[string]any{"type": "Complete", "status": "True"}}}, "JobComplete=String(True) JobSucceeded=Integer(1)"},
		"Pod":           {schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, map[string]any{"phase": "Running", "conditions": []any{map[string]any{"type": "Ready", "status": "False"}}}, "PodReady=String(False) PodPhase=String(Running)"},
		"StatefulSet":   {schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "StatefulSet"}, map[string]any{"replicas": int64(3)}, "!cannot find the wellknown statuses for resource with gvk apps/v1, Kind=StatefulSet"},
		"other version": {schema.GroupVersionKind{Group: "apps", Version: "v1beta1", Kind: "Deployment"}, map[string]any{"replicas": int64(3)}, "!cannot find the wellknown statuses for resource with gvk apps/v1beta1, Kind=Deployment"},
	} {
		t.Run(name, func(t *testing.T) {
			object := &unstructured.Unstructured{Object: map[string]any{"status": x.status}}
			object.SetGroupVersionKind(x.gvk)
			got := readFeedback(context.Background(), []workv1.FeedbackRule{{Type: workv1.FeedbackTypeWellKnownStatus}}, object, 0, fieldpath.NewBudget())
			if problem, failed := strings.CutPrefix(x.want, "!"); failed {
				if got.Err == nil || got.Err.Error() != problem || len(got.Values) != 0 {
					t.Errorf("%v, %v, want the error %q", got.Values, got.Err, problem)
				}
				return
			}
			var texts []string
			for _, v := range got.Values {
				texts = append(texts, valueText(v))
			}
			if text := strings.Join(texts, " "); text != x.want || got.Err != nil {
				t.Errorf("%s, %v, want %s", text, got.Err, x.want)
			}
		})
	}
}
