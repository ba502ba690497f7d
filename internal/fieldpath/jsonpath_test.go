package fieldpath_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/util/jsonpath"

	"github.com/muster-fleet/terraform-provider-muster/internal/fieldpath"
)

// found is what kubectl's library finds, in an order of its own.
func found(path string, object any) ([]string, error) {
	if !strings.HasPrefix(path, "{") {
		path = "{" + path + "}"
	}
	j := jsonpath.New("test").AllowMissingKeys(true)
	if err := j.Parse(path); err != nil {
		return nil, err
	}
	results, err := j.FindResults(object)
	if err != nil || len(results) == 0 {
		return nil, err
	}
	var out []any
	for _, v := range results[0] {
		if v.IsValid() && v.CanInterface() {
			if _, letter := v.Interface().(byte); !letter { // of a text, to the library
				out = append(out, v.Interface())
			}
		}
	}
	return texts(out), nil
}

func texts(values []any) []string {
	var out []string
	for _, v := range values {
		data, _ := json.Marshal(v)
		out = append(out, string(data))
	}
	slices.Sort(out)
	return out
}

// Paths find what they find with kubectl's library, and fail where they fail
// there.
func TestJSONPathsFindWhatKubectlDoes(t *testing.T) {
	object := read(t, document)
	for _, path := range []string{
		`.spec.replicas`, `{.spec.replicas}`, `$.spec.replicas`, `{$.spec.replicas}`, `@.kind`, `.missing.deep`, `.spec.nothing`, `.spec.nothing.x`, `.metadata.annotations.example\.org/x`, `.metadata.annotations['b']`, `['kind']`,
		`.spec.containers[0].name`, `.spec.containers[-1].name`, `.spec.containers[7].name`, `.spec.containers[-9]`, `.spec.containers[*].name`, `.spec.containers[0:2].name`, `.spec.containers[::2].name`, `.spec.containers[1:].name`, `.spec.containers[:-1].name`, `.spec.containers[2:1].name`, `.spec.containers[0,2].name`, `.spec.containers[1:1]`, `.spec.containers[0:3:0]`,
		`.spec.containers.*.name`, `.spec.*`, `.metadata.*`, `.*.name`, `..name`, `.spec..name`, `..`, `.spec.matrix..[0]`, `..[0]`, `.spec.containers..value`, `..*`,
		`.spec.containers[?(@.name=="b")].image`, `.spec.containers[?(@.name!="b")].image`, `.spec.containers[?(@.ports)].name`, `.spec.containers[?(@.env[0].name=="X_1")].name`, `.spec.containers[?(@.name>"a")].name`, `.spec.matrix[0][?(@>1)]`, `.spec.matrix[0][?(@<=2)]`, `.spec.matrix[?(@[0]==4)]`, `.spec[?(@.name=="b")]`, `.spec.containers[?(@.name==1)]`, `.spec.containers[?(@.env[*].name=="X_1")].name`, `.spec.containers[?(@.missing.x=="b")].image`,
		`.kind.x`, `.spec.replicas.x`, `.spec.replicas[0]`, `.kind[0]`, `.kind[*]`, `.kind.*`, `.spec['replicas','ratio']`, `['kind','apiVersion']`, `.spec[`, `.spec[(`, `.spec[abc]`, `"text"`, `.spec.paused`, `.spec.ratio`, `.spec.matrix[*][*]`, `.spec.matrix[*][1:]`, `.spec.containers[*].env[*].name`, `.webhooks[*].clientConfig.caBundle`, ` .spec.replicas `,
	} {
		t.Run(path, func(t *testing.T) {
			want, wantErr := found(path, object)
			p, err := fieldpath.ParseJSONPath(path)
			var got []string
			if err == nil {
				var values []any
				values, err = p.Find(context.Background(), object, fieldpath.NewBudget())
				got = texts(values)
			}
			if (err != nil) != (wantErr != nil) {
				t.Fatalf("got %v, %v, kubectl says %v, %v", got, err, want, wantErr)
			}
			if err == nil && !slices.Equal(got, want) {
				t.Errorf("got\n%s\nkubectl says\n%s", got, want)
			}
		})
	}
}

func TestJSONPathsThatCostTooMuchAreRefused(t *testing.T) {
	for _, path := range []string{
		`{...*...*...*...*...*...*...*...*}`, `..a..b`, `..*..*`, `.items[?(@..a)]..b`, `.items[?(@..a==@..b)]`, `{range .items[*]}{.name}{end}`, `{range .items[*]}`, `{.a}{.b}`, `text`, `text{.a}`, ``, `{}`, `{.a}text`, `{end}`, `.a[?(@.b[?(@.c[?(@.d)])])]`,
		strings.Repeat(".a", 600), strings.Repeat(".*", 150), `.a[` + strings.Repeat("0,", 150) + `0]`,
	} {
		if _, err := fieldpath.ParseJSONPath(path); err == nil {
			t.Errorf("%s is let in", path)
		} else if strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: the error has several lines: %q", path, err)
		}
	}
}

// What is let in ends at the limit, however deep and wide the object is.
func TestJSONPathsAreBounded(t *testing.T) {
	var deep any = "bottom"
	for range 2000 {
		deep = map[string]any{"a": deep, "b": []any{int64(1), int64(2)}}
	}
	wide := make([]any, 300)
	for i := range wide {
		wide[i] = wide[:i:i]
	}
	object := map[string]any{"deep": deep, "wide": wide}
	for _, path := range []string{
		`..a` + strings.Repeat(`.*`, 90), `.wide[*][*][*][*][*][*]`, `..[*][*]`, `.wide[` + strings.Repeat("*,", 90) + `*][*]`, `.wide[?(@..a)]`, `.wide[*][?(@[*][*])]`,
		`['wide','wide','wide','wide','wide','wide','wide','wide']` + strings.Repeat(`['x','x']`, 10),
	} {
		p, err := fieldpath.ParseJSONPath(path)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		values, err := p.Find(context.Background(), object, fieldpath.NewBudget())
		if err != nil && !errors.Is(err, fieldpath.ErrLimit) && !strings.Contains(err.Error(), "not array") && !strings.Contains(err.Error(), "out of bounds") || len(values) > 200_000 {
			t.Errorf("%s: got %d values, %v", path, len(values), err)
		}
	}
}

func FuzzJSONPath(f *testing.F) {
	f.Add(`.spec.containers[?(@.name=="b")].image`)
	f.Add(`..[0,-1:].*`)
	f.Fuzz(func(t *testing.T, path string) {
		p, err := fieldpath.ParseJSONPath(path)
		if err != nil {
			return
		}
		object := read(t, document)
		values, err := p.Find(context.Background(), object, fieldpath.NewBudget())
		want, wantErr := found(strings.TrimSpace(path), object)
		if err == nil && wantErr == nil && !slices.Equal(texts(values), want) {
			t.Errorf("%s: got\n%s\nkubectl says\n%s", path, texts(values), want)
		}
	})
}
