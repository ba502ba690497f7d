package work

import (
	"context"
	"fmt"
	"time"

	"github.com/itchyny/gojq"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// jqTimeout is how long a jq expression may run.
const jqTimeout = time.Second

// removeJQPath removes what a jq path expression leads to. Other than a JSON
// path, it can remove items of lists.
func removeJQPath(ctx context.Context, object *unstructured.Unstructured, path string) error {
	query, err := gojq.Parse("del(" + path + ")")
	if err != nil {
		return fmt.Errorf("the jq path expression %q cannot be read: %w", path, err)
	}
	code, err := gojq.Compile(query)
	if err != nil {
		return fmt.Errorf("the jq path expression %q cannot be read: %w", path, err)
	}
	ctx, cancel := context.WithTimeout(ctx, jqTimeout)
	defer cancel()
	results := code.RunWithContext(ctx, toJQ(object.Object))
	first, ok := results.Next()
	if !ok {
		return fmt.Errorf("the jq path expression %q yields nothing", path)
	}
	if err, failed := first.(error); failed {
		return fmt.Errorf("the jq path expression %q: %w", path, err)
	}
	if _, more := results.Next(); more {
		return fmt.Errorf("the jq path expression %q yields more than one object", path)
	}
	rest, ok := fromJQ(first).(map[string]any)
	if !ok {
		return fmt.Errorf("the jq path expression %q yields a %T and not an object", path, first)
	}
	object.Object = rest
	return nil
}

// toJQ and fromJQ copy a value with the kind of integers that each side knows.
func toJQ(v any) any {
	if n, ok := v.(int64); ok {
		return int(n)
	}
	return copied(v, toJQ)
}

func fromJQ(v any) any {
	if n, ok := v.(int); ok {
		return int64(n)
	}
	return copied(v, fromJQ)
}

func copied(v any, item func(any) any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, x := range v {
			out[k] = item(x)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = item(x)
		}
		return out
	}
	return v
}
