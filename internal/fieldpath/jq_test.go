package fieldpath_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/itchyny/gojq"

	"github.com/muster-fleet/terraform-provider-muster/internal/fieldpath"
)

const document = `{
  "apiVersion": "apps/v1", "kind": "Deployment",
  "metadata": {"name": "web", "annotations": {"example.org/x": "1", "b": "2"}, "finalizers": []},
  "spec": {
    "replicas": 3, "ratio": 0.5, "paused": false, "nothing": null,
    "containers": [
      {"name": "a", "image": "x", "env": [{"name": "X_1", "value": "1"}, {"name": "Y", "value": "2"}]},
      {"name": "b", "image": "y", "ports": [80, 443]},
      {"name": "c", "image": "y", "env": []}
    ],
    "matrix": [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
  },
  "webhooks": [{"clientConfig": {"caBundle": "abc"}}, {"clientConfig": {}}]
}`

func read(t testing.TB, text string) map[string]any {
	t.Helper()
	var out map[string]any
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return integers(out).(map[string]any)
}

// integers makes whole numbers of what JSON decodes, as Kubernetes does.
func integers(v any) any {
	switch v := v.(type) {
	case float64:
		if v == float64(int64(v)) {
			return int64(v)
		}
	case map[string]any:
		for k := range v {
			v[k] = integers(v[k])
		}
	case []any:
		for i := range v {
			v[i] = integers(v[i])
		}
	}
	return v
}

// byLibrary is what jq's own library removes.
func byLibrary(t testing.TB, path string) (string, error) {
	t.Helper()
	query, err := gojq.Parse("del(" + path + ")")
	if err != nil {
		return "", err
	}
	var v any
	if err := json.Unmarshal([]byte(document), &v); err != nil {
		t.Fatal(err)
	}
	first, _ := query.Run(v).Next()
	if err, failed := first.(error); failed {
		return "", err
	}
	data, err := json.Marshal(first)
	return string(data), err
}

// What paths are removes what jq removes, and fails where jq fails.
func TestJQPathsRemoveWhatJQDoes(t *testing.T) {
	for _, path := range []string{
		`.spec.replicas`, `.spec.missing`, `.spec.missing.deeper`, `.spec.nothing.x`, `.metadata.annotations["example.org/x"]`,
		`.metadata.annotations."b"`, `.["spec"]["replicas"]`, `.spec.containers[0]`, `.spec.containers[-1]`, `.spec.containers[7]`, `.spec.containers[-7]`,
		`.spec.containers[].image`, `.spec.containers[]`, `.spec.containers[1:]`, `.spec.containers[:2]`, `.spec.containers[-2:-1]`, `.spec.containers[1:2].name`,
		`.spec.containers[1:][].name`, `.spec.containers[1:][0]`, `.spec.containers[2:1]`, `.spec.matrix[][1:]`, `.spec.matrix[1:][1:]`, `.spec.matrix[0][0], .spec.matrix[0][1]`,
		`.spec.containers[] | select(.name == "a")`, `.spec.containers[] | select(.name != "a") | .image`, `(.spec.containers[] | select(.name == "b")).ports[0]`,
		`.spec.containers[].env[]? | select(.name | startswith("X_"))`, `.spec.containers[].env[]?`, `.spec.containers[] | select(.name | endswith("c"))`,
		`.spec.containers[] | select(has("env"))`, `.spec.containers[] | select(has("env") | not)`, `.spec.containers[] | select(.env)`,
		`.spec.containers[] | select(.name == "a" or .name == "b")`, `.spec.containers[] | select(.name == "a" and .image == "x")`,
		`.spec.containers[] | select(.ports[]? == 443)`, `.spec.containers[] | select((.ports // 0) == 1)`, `.spec.matrix[][] | select(. > 3 and . <= 7)`, `.spec.matrix[][] | select(. >= 9)`, `.spec.matrix[][] | select(. < -1)`,
		`.spec | select(.ratio == 0.5) | .ratio`, `.spec | select(.paused == false) | .paused`, `.spec | select(.nothing == null) | .nothing`, `.spec | select(.paused)`,
		`.webhooks[0].clientConfig.caBundle`, `.webhooks[]?.clientConfig.caBundle?`, `.webhooks[].clientConfig | .caBundle`,
		`.metadata.name, .spec.replicas`, `(.metadata, .spec) | .name`, `.metadata[]`, `.spec[]?[]?`, `.metadata.finalizers[]`, `.spec.replicas?`,
		`.spec.replicas.x`, `.spec.replicas.x?`, `.spec.replicas[0]`, `.spec.replicas[]`, `.spec.replicas[]?`, `.spec.replicas[0:1]`, `.spec.nothing[]`, `.spec.nothing[1:2]`, `.spec["containers"][1]["name"]`,
		`.spec.containers | .[0]`, `.spec.containers.name`, `.spec.containers[] | select(.replicas.x.y == null) | .image`, `.spec.containers[] | select(.name.x)`,
		`.spec.containers[] | select(.env == [])`, `.spec.matrix[] | select(.[0] == 4)`, `.spec.matrix[1:] | select(.[0][0] == 4)`, `.spec.matrix[][] | select(. == 1, . == 9)`, `.spec.containers[] | select(.name == ("a", "c"))`,
		`.a?`, `."a b"?.c`, `.spec.replicas | .x?`, `.spec."containers"[0:1]`, `.spec.containers[0]["env"][0].value`,
	} {
		t.Run(path, func(t *testing.T) {
			p, err := fieldpath.ParseJQ(path)
			if err != nil {
				if strings.Contains(err.Error(), "is more than a path") && (strings.Contains(path, "//") || strings.Contains(path, "== [")) {
					return
				}
				t.Fatal(err)
			}
			object := read(t, document)
			want, wantErr := byLibrary(t, path)
			err = p.Delete(context.Background(), object, fieldpath.NewBudget())
			if (err != nil) != (wantErr != nil) {
				t.Fatalf("got %v, jq says %v", err, wantErr)
			}
			if err != nil {
				return
			}
			got, err := json.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != want {
				t.Errorf("got\n%s\njq says\n%s", got, want)
			}
		})
	}
}

// Whatever is more than a path is refused before it is evaluated.
func TestJQThatIsNoPathIsRefused(t *testing.T) {
	for _, text := range []string{
		`.data[(reduce range(34) as $i ("x"; . + .))]`, `reduce .a as $x (0; .)`, `foreach .a as $x (0; .)`, `range(10)`, `.a[range(9)]`, `last(repeat(.))`, `repeat(.)`,
		`def f: f; f`, `.a as $x | .b`, `..`, `recurse`, `recurse(.a)`, `getpath(["a"])`, `paths`, `to_entries`, `.a[.b]`, `.["a" + "b"]`, `."a\(.b)"`, `.["a\(.b)"]`, `.a["x" * 1000000]`,
		`env`, `$ENV`, `$__loc__`, `input`, `inputs`, `debug`, `error`, `halt`, `limit(3; .a)`, `first(.a)`, `until(true; .)`, `while(true; .)`, `1 + 1`, `"x"`, `1`, `null`, `true`, `[.a]`, `{a: 1}`,
		`.a + .b`, `.a // .b`, `.a = 1`, `.a |= 1`, `if .a then .b else .c end`, `try .a`, `try error("x") catch .`, `label $x | .a`, `@base64`, `@json "x\(.)"`, `.a | @text`, `-1`, `-.a`, `empty`, `not`, `splits("a")`,
		`select(.a | test("(a*)*b"))`, `select(.a | ascii_downcase == "b")`, `select(.a == .b + .c)`, `select(any(.a[]; . == 1))`, `select(reduce .a as $x (0; .))`, `select([range(1e9)] == 1)`, `select(.a; .b)`, `select(.a | startswith(.b))`, `select(.a | startswith("a\(.b)"))`,
		`select`, `nosuch(.spec)`, `.spec[`, ``, ` `, `import "a" as a; .`, `include "a"; .`, `.a[1.5]`, `.a[null]`, `.a["b":]`, `.a[true]`, `?`, `.a | .` + strings.Repeat(" | .", 200), strings.Repeat("(", 100) + "." + strings.Repeat(")", 100),
		strings.Repeat(".a", 600), `.[` + strings.Repeat("9", 400) + `]`, `limit(1; repeat(.))`, `.a[] as [$x] | .b`, `.. |= .`, `.a ?// .b`, `$x`, `.a.[range(3)]`, `getpath(["a"])?`, `path(.a)`, `del(.a)`, `tojson`, `ltrimstr("a")`, `input_line_number`, `now`, `splits("a";"b")`, `@sh`, `ascii`, `implode`, `select(input == 1)`, `select(env.HOME == "x")`, `select($ENV.HOME == "x")`,
	} {
		if _, err := fieldpath.ParseJQ(text); err == nil {
			t.Errorf("%s is let in", text)
		} else if strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: the error has several lines: %q", text, err)
		}
	}
}

// A path that multiplies ends at the limit, and leaves the object as it was.
func TestJQPathsAreBounded(t *testing.T) {
	wide := map[string]any{}
	list := make([]any, 400)
	for i := range list {
		list[i] = int64(i)
	}
	wide["a"], wide["b"] = list, list
	for _, text := range []string{
		`.a[], .a[] | .,.,.,.,.,. | .,.,.,.,.,. | .,.,.,.,.,. | .,.`,
		`(.,.)|(.,.)|(.,.)|(.,.)|(.,.)|(.,.)|(.,.)|(.,.)|(.,.)|(.,.)|(.,.)|(.,.)|(.,.)|(.,.)|(.,.)|(.,.)|(.,.)|(.,.)|(.,.)|.a[0]`,
		`(.a,.b) | (.,.,.,.) | (.,.,.,.) | (.,.,.,.) | (.,.,.,.)[]?`,
	} {
		p, err := fieldpath.ParseJQ(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Delete(context.Background(), wide, fieldpath.NewBudget()); !errors.Is(err, fieldpath.ErrLimit) {
			t.Errorf("%s: got %v, want the limit", text, err)
		}
		if len(wide["a"].([]any)) != len(list) {
			t.Errorf("%s: something was removed", text)
		}
	}
}

func FuzzJQ(f *testing.F) {
	f.Add(`.spec.containers[] | select(.name == "a" and (.env | not))`)
	f.Add(`.spec.matrix[1:][-1][0:2]?, .a.b`)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := fieldpath.ParseJQ(text)
		if err != nil {
			return
		}
		object := read(t, document)
		err = p.Delete(context.Background(), object, fieldpath.NewBudget())
		want, wantErr := byLibrary(t, text)
		if err == nil && wantErr == nil && want != "null" {
			if got, _ := json.Marshal(object); string(got) != want {
				t.Errorf("%s: got\n%s\njq says\n%s", text, got, want)
			}
		}
	})
}

// long is an object of two lists of so many numbers, which are equal.
func long(n int) map[string]any {
	out := map[string]any{"metadata": map[string]any{"x": "y"}}
	for _, name := range []string{"a", "b"} {
		list := make([]any, n)
		for i := range list {
			list[i] = int64(i)
		}
		out[name] = list
	}
	return out
}

// What a path does costs as much as it looks at: comparisons by what is compared,
// removals by how many places there are.
func TestJQPathsCostWhatTheyLookAt(t *testing.T) {
	const n = 10_000
	text := map[string]any{"a": strings.Repeat("x", 64*n), "b": strings.Repeat("x", 64*n)}
	for path, x := range map[string]struct {
		object map[string]any
		least  int
	}{
		`select(.a == .b) | .metadata`:            {long(n), n},
		`select(.a != .b) | .metadata`:            {long(n), n},
		`select(.a < .b) | .metadata`:             {long(n), n},
		`select(.a == .b) | .metadata.y`:          {text, n},
		`.a[0:]`:                                  {long(n), n},
		`(.,.,.,.,.,.,.,.,.,.) | .a[0:]`:          {long(n), 10 * n},
		`.a[] | select(. == 1)`:                   {long(n), n},
		`.a[1:3], .metadata.x`:                    {long(n), 4},
		`select(.metadata == .metadata) | .a[0:]`: {long(n), n},
	} {
		p, err := fieldpath.ParseJQ(path)
		if err != nil {
			t.Fatal(err)
		}
		budget := fieldpath.NewBudget()
		if err := p.Delete(context.Background(), x.object, budget); err != nil || budget.Spent() < x.least || budget.Spent() > 20*x.least {
			t.Errorf("%s: %v, cost %d, want at least %d", path, err, budget.Spent(), x.least)
		}
	}
}

// The paths of one object share a budget: many that cost little are too much, too.
func TestPathsShareABudget(t *testing.T) {
	budget, object := fieldpath.NewBudget(), long(20_000)
	bomb, err := fieldpath.ParseJQ("." + strings.Repeat("|(.,.)", 12) + "|select(.a==.b)|.metadata.x")
	if err != nil {
		t.Fatal(err)
	}
	if err := bomb.Delete(context.Background(), object, budget); !errors.Is(err, fieldpath.ErrLimit) {
		t.Errorf("got %v", err)
	}
	// What was noticed only when it was done is little.
	if spent := budget.Spent(); spent > fieldpath.ObjectBudget+30_000 {
		t.Errorf("it has cost %d", spent)
	}
	small, err := fieldpath.ParseJSONPath(".metadata.x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := small.Find(context.Background(), object, budget); !errors.Is(err, fieldpath.ErrLimit) {
		t.Errorf("the next path: got %v", err)
	}
}

// ending is a context that ends when it is asked for the third time.
type ending struct {
	context.Context
	asked int
}

func (c *ending) Err() error {
	if c.asked++; c.asked > 2 {
		return context.Canceled
	}
	return nil
}

func (c *ending) Value(any) any { return nil }

// A path ends with its context, in the middle of a loop.
func TestPathsEndWithTheirContext(t *testing.T) {
	object := long(50_000)
	jq, err := fieldpath.ParseJQ(`.a[]?, .b[]? | select(. == 1)?, .x?`)
	if err != nil {
		t.Fatal(err)
	}
	json, err := fieldpath.ParseJSONPath(`.a[?(@ > 1)]`)
	if err != nil {
		t.Fatal(err)
	}
	for name, walk := range map[string]func(context.Context, *fieldpath.Budget) error{
		"jq":       func(ctx context.Context, b *fieldpath.Budget) error { return jq.Delete(ctx, object, b) },
		"JSONPath": func(ctx context.Context, b *fieldpath.Budget) error { _, err := json.Find(ctx, object, b); return err },
	} {
		budget := fieldpath.NewBudget()
		err := walk(&ending{Context: context.Background()}, budget)
		if !errors.Is(err, context.Canceled) || budget.Spent() > 120_000 {
			t.Errorf("%s: got %v after %d units", name, err, budget.Spent())
		}
	}
}
