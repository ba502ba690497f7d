package manifest

import (
	"context"
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/muster-fleet/terraform-provider-muster/internal/fieldpath"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

func TestIgnoredFieldsAreLeftOutOnceTheObjectExists(t *testing.T) {
	object := func() *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"example.org/team": "a"}},
			"spec": map[string]any{"replicas": int64(1), "containers": []any{
				map[string]any{"name": "a", "image": "x"}, map[string]any{"name": "b", "image": "y"},
			}},
		}}
	}
	pointers := func(p ...string) workv1.IgnoreField { return workv1.IgnoreField{JSONPointers: p} }
	paths := func(p ...string) workv1.IgnoreField { return workv1.IgnoreField{JSONPaths: p} }
	jq := func(p ...string) workv1.IgnoreField { return workv1.IgnoreField{JQPathExpressions: p} }
	for name, x := range map[string]struct {
		ignored workv1.IgnoreField
		want    string // of spec and labels; empty for an error
	}{
		"pointer":                     {pointers("/spec/replicas"), `{"containers":[{"image":"x","name":"a"},{"image":"y","name":"b"}]} {"example.org/team":"a"}`},
		"pointer with a slash":        {pointers("/metadata/labels/example.org~1team"), `{"containers":[{"image":"x","name":"a"},{"image":"y","name":"b"}],"replicas":1} {}`},
		"pointer into a list":         {pointers("/spec/containers/1/image"), `{"containers":[{"image":"x","name":"a"},{"name":"b"}],"replicas":1} {"example.org/team":"a"}`},
		"pointer to an item":          {pointers("/spec/containers/0"), `{"containers":[{"image":"y","name":"b"}],"replicas":1} {"example.org/team":"a"}`},
		"pointer to nothing":          {pointers("/spec/paused", "/spec/containers/7/image", "/spec/replicas/x"), `{"containers":[{"image":"x","name":"a"},{"image":"y","name":"b"}],"replicas":1} {"example.org/team":"a"}`},
		"path":                        {paths(".spec.replicas"), `{"containers":[{"image":"x","name":"a"},{"image":"y","name":"b"}]} {"example.org/team":"a"}`},
		"path in braces":              {paths("{$.spec.replicas}"), `{"containers":[{"image":"x","name":"a"},{"image":"y","name":"b"}]} {"example.org/team":"a"}`},
		"path through all items":      {paths(".spec.containers[*].image"), `{"containers":[{"name":"a"},{"name":"b"}],"replicas":1} {"example.org/team":"a"}`},
		"path through one item":       {paths(`.spec.containers[?(@.name=="b")].image`), `{"containers":[{"image":"x","name":"a"},{"name":"b"}],"replicas":1} {"example.org/team":"a"}`},
		"path with a dot in a name":   {paths(`.metadata.labels.example\.org/team`), `{"containers":[{"image":"x","name":"a"},{"image":"y","name":"b"}],"replicas":1} {}`},
		"path with a quoted name":     {paths(`.metadata.labels['example.org/team']`), `{"containers":[{"image":"x","name":"a"},{"image":"y","name":"b"}],"replicas":1} {}`},
		"path to nothing":             {paths(".spec.template.spec"), `{"containers":[{"image":"x","name":"a"},{"image":"y","name":"b"}],"replicas":1} {"example.org/team":"a"}`},
		"pointer without a slash":     {pointers("spec"), ""},
		"path that ends in an item":   {paths(".spec.containers[0]"), ""},
		"path that cannot be read":    {paths(".spec.containers[(.image"), ""},
		"jq":                          {jq(".spec.replicas"), `{"containers":[{"image":"x","name":"a"},{"image":"y","name":"b"}]} {"example.org/team":"a"}`},
		"jq through items":            {jq(".spec.containers[].image", ".spec.replicas"), `{"containers":[{"name":"a"},{"name":"b"}]} {"example.org/team":"a"}`},
		"jq to an item":               {jq(`.spec.containers[] | select(.name == "a")`), `{"containers":[{"image":"y","name":"b"}],"replicas":1} {"example.org/team":"a"}`},
		"jq to nothing":               {jq(".spec.nothing.at.all"), `{"containers":[{"image":"x","name":"a"},{"image":"y","name":"b"}],"replicas":1} {"example.org/team":"a"}`},
		"jq that cannot be read":      {jq(".spec["), ""},
		"jq with an unknown function": {jq("nosuch(.spec)"), ""},
		"jq that is no path":          {jq("1 + 1"), ""},
		"jq that leaves no object":    {jq("."), ""},
		"jq that does not end":        {jq(`.spec | last(repeat(.))`), ""},
	} {
		t.Run(name, func(t *testing.T) {
			x.ignored.Condition = workv1.IgnoreFieldsConditionOnSpokePresent
			rest, err := WithoutIgnored(context.Background(), object(), []workv1.IgnoreField{x.ignored}, fieldpath.NewBudget())
			if x.want == "" {
				if err == nil {
					t.Fatalf("no error, but %v", rest)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got, whole := rest.ToApply(true), rest.ToApply(false)
			labels, _, _ := unstructured.NestedMap(got.Object, "metadata", "labels")
			text, err := json.Marshal(got.Object["spec"])
			if err != nil {
				t.Fatal(err)
			}
			more, err := json.Marshal(labels)
			if err != nil {
				t.Fatal(err)
			}
			if string(text)+" "+string(more) != x.want {
				t.Errorf("got  %s %s\nwant %s", text, more, x.want)
			}
			// A new object gets everything, and the hash that it has from then on.
			if whole.GetAnnotations()[work.SpecHashAnnotation] != got.GetAnnotations()[work.SpecHashAnnotation] {
				t.Error("the hash of a new object differs from that of an existing one")
			}
			if whole.GetLabels()["example.org/team"] != "a" {
				t.Errorf("a new object lacks fields: %v", whole)
			}
		})
	}
}

func TestFieldsIgnoredWhenTheyChangeAreApplied(t *testing.T) {
	required := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"replicas": int64(1)}}}
	ignored := []workv1.IgnoreField{{Condition: workv1.IgnoreFieldsConditionOnSpokeChange, JSONPointers: []string{"/spec/replicas"}}}
	rest, err := WithoutIgnored(context.Background(), required, ignored, fieldpath.NewBudget())
	if err != nil {
		t.Fatal(err)
	}
	got := rest.ToApply(true)
	if len(got.Object["spec"].(map[string]any)) != 1 {
		t.Errorf("got %v, want all fields", got)
	}
}

// An object that upstream's agent applied is not written again.
func TestHashIsUpstreams(t *testing.T) {
	required := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "default", "name": "test"}, "data": map[string]any{"foo1": "bar1"},
	}}
	ignored := []workv1.IgnoreField{{Condition: workv1.IgnoreFieldsConditionOnSpokeChange, JSONPaths: []string{".data"}}}
	rest, err := WithoutIgnored(context.Background(), required, ignored, fieldpath.NewBudget())
	if err != nil {
		t.Fatal(err)
	}
	if hash := rest.ToApply(true).GetAnnotations()[work.SpecHashAnnotation]; hash != "4c07ba481d04e9c38e5ed3bf24139537" {
		t.Errorf("got %s", hash)
	}
}
