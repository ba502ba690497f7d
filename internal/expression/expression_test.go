package expression_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/muster-fleet/terraform-provider-muster/internal/expression"
)

func TestTrue(t *testing.T) {
	env, err := expression.NewEnv(expression.CallLimit, []string{"object"})
	if err != nil {
		t.Fatal(err)
	}
	object := map[string]any{
		"spec":   map[string]any{"replicas": int64(3), "ratio": 0.5, "memory": "1Gi", "version": "v1.36.2", "url": "https://example.org:443/a"},
		"status": map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True"}}},
	}
	for text, want := range map[string]any{
		`object.spec.replicas == 3`: true,
		`object.spec.replicas > 5`:  false,
		`object.spec.ratio < 1.0`:   true,
		`object.status.conditions.exists(c, c.type == "Ready" && c.status == "True")`: true,
		`has(object.spec.missing)`:                                                         false,
		`object.spec.?missing.orValue("x") == "x"`:                                         true,
		`quantity(object.spec.memory).isGreaterThan(quantity("500Mi"))`:                    true,
		`semver(object.spec.version, true).isGreaterThan(semver("1.30.0"))`:                true,
		`url(object.spec.url).getPort() == "443"`:                                          true,
		`ip("10.0.0.1").family() == 4 && cidr("10.0.0.0/8").containsIP("10.0.0.1")`:        true,
		`[1, 2, 3].sum() == 6 && "a,b".split(",").size() == 2 && "abc".find("b.") == "bc"`: true,
		`!format.dns1123Label().validate("web").hasValue()`:                                true,
		`object.missing`:    "no such key: missing",
		`object.spec.url`:   "expected bool result, got string",
		`object.`:           "compilation failed: ",
		`unknown == 1`:      "compilation failed: ",
		`[1,2].nosuch() > `: "compilation failed: ",
	} {
		t.Run(text, func(t *testing.T) {
			got, err := env.True(context.Background(), text, map[string]any{"object": object}, expression.NewBudget())
			if problem, ok := want.(string); ok {
				if err == nil || !strings.HasPrefix(err.Error(), problem) {
					t.Fatalf("got %v, %v, want the error %q", got, err, problem)
				}
				if strings.HasPrefix(problem, "compilation") != errors.Is(err, expression.ErrCompile) || (env.Check(text) == nil) == errors.Is(err, expression.ErrCompile) {
					t.Errorf("whether it can be compiled is reported wrongly: %v", err)
				}
				return
			}
			if err != nil || got != want {
				t.Errorf("got %v, %v, want %v", got, err, want)
			}
		})
	}
}

func TestText(t *testing.T) {
	env, err := expression.NewEnv(expression.CallLimit, []string{"result"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := env.Text(context.Background(), `result ? "yes" : "no"`, map[string]any{"result": true}, expression.NewBudget())
	if err != nil || got != "yes" {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := env.Text(context.Background(), `result`, map[string]any{"result": true}, expression.NewBudget()); err == nil || err.Error() != "expected string result, got bool" {
		t.Errorf("got %v", err)
	}
}

// An expression may cost so much, and all about an object together ten times
// that. The test's limits are a hundredth of the real ones, so that it is not the
// time that ends an evaluation on a machine that is slow.
func TestCostIsLimited(t *testing.T) {
	if expression.ObjectBudget != 10*expression.CallLimit {
		t.Errorf("an object's expressions may cost %d, want ten times %d", expression.ObjectBudget, expression.CallLimit)
	}
	const callLimit = expression.CallLimit / 100
	env, err := expression.NewEnv(callLimit, []string{"list"})
	if err != nil {
		t.Fatal(err)
	}
	list := func(n int) map[string]any { return map[string]any{"list": make([]int64, n)} }
	const squared = `list.all(x, list.all(y, x == y))`
	budget := expression.BudgetOf(10 * callLimit)
	if _, err := env.True(context.Background(), squared, list(200), budget); err == nil || !strings.Contains(err.Error(), "cost limit") {
		t.Errorf("got %v, want it to be too dear by itself", err)
	}
	budget = expression.BudgetOf(10 * callLimit)
	for i := range 100 {
		_, err = env.True(context.Background(), squared, list(35), budget)
		if errors.Is(err, expression.ErrBudget) {
			if i < 9 {
				t.Errorf("out of budget after %d evaluations", i+1)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Error("a hundred dear evaluations stayed within the budget")
}
