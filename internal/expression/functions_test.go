//go:build !race

// These tests compare what evaluations cost with how long they take, which the race
// detector changes.

package expression

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/decls"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apimachinery/pkg/util/sets"
)

// parseJSONOf is a function as placements have one.
func parseJSONOf() cel.EnvOption {
	return cel.Function("parseJSON", cel.MemberOverload("parse_json", []*cel.Type{cel.StringType}, cel.DynType,
		cel.UnaryBinding(func(text ref.Val) ref.Val {
			var value any
			if err := json.Unmarshal([]byte(text.(types.String)), &value); err != nil {
				return types.WrapErr(err)
			}
			return types.DefaultTypeAdapter.NativeToValue(value)
		})))
}

// authorizer are the functions of Kubernetes' authorizer, which no expression of
// ours is given.
var authorizer = sets.New("allowed", "check", "error", "errored", "fieldSelector", "group", "labelSelector", "name",
	"namespace", "path", "reason", "resource", "serviceAccount", "subresource")

// spelled are the calls of the functions that are not written by their names.
var spelled = map[string][]string{
	"@in": {"aaa in texts", "1 in ints", "nested in [nested, nested]", "aaa in map"}, "in": nil, "_in_": nil,
	"@sortByAssociatedKeys": {"texts.sortBy(x, x)", "ints.sortBy(x, 0-x)"},
	"cel.@mapInsert": {"map.transformMap(k, v, v).size() == 0",
		"ints.transformMapEntry(i, v, {aaa + string(i): v})"},
	"@not_strictly_false": {"ints.exists(x, x < 0)"}, "__not_strictly_false__": nil,
	"_?_:_": {"aaa == aaa ? 1 : 2"}, "_[_]": {"map[aaa]", "map[aab]", "ints[0]", `{"a": 1}[aaa]`, "{1: 1}[dyn(nested)]"},
	"_[?_]": {"map[?aaa]", "ints[?0]", "optional.of(map)[?aaa]"}, "_?._": {"map.?b", "optional.of(map).?b"},
	"_&&_": {"true && true"}, "_||_": {"false || true"}, "!_": {"!true"}, "-_": {"-(1)"},
}

// valid are calls beside those with hard arguments, which succeed.
var valid = map[string]string{
	"cidr": `cidr("10.0.0.0/8")`, "semver": `semver("1.0.0-a" + "b")`, "ip": `ip("::1")`,
	"ip.isCanonical":  `ip.isCanonical("::1")`,
	"optional.unwrap": "optional.unwrap([optional.of(texts)])", "unwrapOpt": "[optional.of(nested)].unwrapOpt()",
	"asInteger": `quantity("1").asInteger()`, "parseJSON": `("[" + aaa.replace("a", "1,") + "1]").parseJSON()`,
	"url": `url("http://a/")`, "timestamp": `timestamp("2026-01-01T00:00:00Z")`, "duration": `duration("1h")`,
}

// argumentsOf are expressions of a type that a function may find hard, of texts and
// lists of n values.
func argumentsOf(t *types.Type) []string {
	switch t.Kind() {
	case types.StringKind:
		return []string{
			"aaa", "half", `"(?:a*b)|a"`, `"a"`, `"Europe/Berlin"`, "dots",
			"aab", "digits", "mixed", `""`, `"(a|b|c)*d"`, "time",
		}
	case types.BytesKind:
		return []string{"bytes(aaa)"}
	case types.IntKind:
		return []string{"0", "60", "1000000000"}
	case types.UintKind:
		return []string{"1u"}
	case types.DoubleKind:
		return []string{"1.5"}
	case types.BoolKind:
		return []string{"true"}
	case types.TimestampKind:
		return []string{`timestamp("2026-01-01T00:00:00Z")`}
	case types.DurationKind:
		return []string{`duration("1h1m")`}
	case types.MapKind:
		return []string{"map"}
	case types.ListKind:
		return []string{"ints", "texts", "same", "nested", "ints.map(x, x)"}
	case types.TypeParamKind, types.DynKind:
		return []string{"1", "aaa", "ints", "nested", "map", "same"}
	}
	return opaque[strings.TrimSuffix(strings.TrimPrefix(t.String(), "optional_type("), ")")]
}

// opaque are values of types that functions make.
var opaque = map[string][]string{
	"kubernetes.Quantity": {`quantity("1e999")`, `quantity("1e-999")`, `quantity("9" + digits)`},
	"kubernetes.Semver":   {`semver("1.0.0-a" + dots)`, `semver("1.0.0")`},
	"kubernetes.URL":      {`url("http://a/?b=" + aaa)`, `url("http://a/?" + mixed)`},
	"kubernetes.NamedFormat": {"format.uri()", "format.dns1123Subdomain()", "format.byte()",
		"format.datetime()", "format.qualifiedName()"},
	"net.IP":        {`ip("::1")`},
	"net.CIDR":      {`cidr("::/0")`},
	"<V>":           {"optional.of(ints)", "optional.of(aaa)"},
	"list(<V>)":     {"optional.of(ints)"},
	"map(<K>, <V>)": {"optional.of(map)"},
}

// calls are all ways to call an overload with hard arguments.
func calls(function string, o *decls.OverloadDecl) []string {
	out := []string{""}
	for i, t := range o.ArgTypes() {
		var longer []string
		for _, before := range out {
			for j, a := range argumentsOf(t) {
				if i > 0 && (j > 5 || len(o.ArgTypes()) > 2 && j > 2) {
					break // not each with each
				}
				if i > 0 {
					a = before + "\x00" + a
				}
				longer = append(longer, a)
			}
		}
		out = longer
	}
	for i, all := range out {
		args := strings.Split(all, "\x00")
		operator, isOperator := operators.FindReverseBinaryOperator(function)
		switch {
		case isOperator && operator != "":
			out[i] = "(" + args[0] + ") " + operator + " (" + args[1] + ")"
		case o.IsMemberFunction():
			out[i] = args[0] + "." + function + "(" + strings.Join(args[1:], ", ") + ")"
		case len(o.ArgTypes()) == 0:
			out[i] = function + "()"
		default:
			out[i] = function + "(" + strings.Join(args, ", ") + ")"
		}
	}
	return out
}

// inputs are the variables of the calls, of n letters or values.
func inputs(n int) map[string]any {
	ints, texts, same := make([]any, n), make([]any, n), make([]any, n)
	entries := map[string]any{}
	long := strings.Repeat("a", min(n, 200))
	for i := range n {
		ints[i], texts[i], same[i] = int64(i*7919%n), fmt.Sprint("t", i*7919%n), long
		entries[fmt.Sprint("k", i)] = int64(i)
	}
	var nested any = []any{int64(1)}
	for size := 1; size < n; size *= 2 {
		nested = []any{nested, nested}
	}
	return map[string]any{
		"aaa": strings.Repeat("a", n), "aab": strings.Repeat("a", n) + "b", "half": strings.Repeat("a", n/2) + "b",
		"digits": strings.Repeat("7", n), "dots": strings.Repeat(".a", n/2), "mixed": strings.Repeat("a=é&%41;,", n/8),
		"time": "2026-01-01T00:00:00." + strings.Repeat("1", n) + "Z",
		"ints": ints, "texts": texts, "same": same, "nested": nested, "map": entries,
	}
}

// A meter finds out what evaluations cost and how long they take.
type meter struct {
	env *Env
	// unit is how long a unit of an ordinary loop takes.
	unit time.Duration
}

// run evaluates an expression and returns its cost, time and error.
func (m *meter) run(t *testing.T, text string, variables map[string]any) (int64, time.Duration, error) {
	t.Helper()
	budget := BudgetOf(CallLimit * 10)
	start := time.Now()
	_, err := m.env.evaluate(context.Background(), text, variables, budget)
	took := time.Since(start)
	return max(1, budget.Spent()), took, err
}

// calibrate measures what a unit takes on this machine now.
func (m *meter) calibrate(t *testing.T) {
	t.Helper()
	units, took, err := m.run(t, "ints.all(x, ints.all(y, x + y >= 0))", inputs(100))
	if err != nil {
		t.Fatal(err)
	}
	m.unit = took / time.Duration(units)
}

const (
	// tolerance is how many times as long as that of a loop a unit of a call may take.
	tolerance = 20
	// unmeasured is what a call may take without a look at its cost, in units of a loop: a
	// tenth of a millisecond on a machine that is not busy.
	unmeasured = 1000
)

// fair checks that a call takes no longer than its cost says, on a machine that may
// be busy: only what takes too long each time is an error.
func (m *meter) fair(t *testing.T, text string, variables map[string]any) error {
	t.Helper()
	var err error
	for range 5 {
		var units int64
		var took time.Duration
		units, took, err = m.run(t, text, variables)
		if took <= m.unit*time.Duration(max(unmeasured, tolerance*units)) {
			return err
		}
		m.calibrate(t)
	}
	units, took, _ := m.run(t, text, variables)
	t.Errorf("%s with %d letters: %d units take %s, and a unit of a loop takes %s",
		text, len(variables["aaa"].(string)), units, took, m.unit)
	return err
}

// Every function of the environment is charged for what it does with its worst
// input, at each size up to the one that is refused, so that no call takes longer
// than its cost says, and none takes long.
func TestEveryFunctionIsChargedForItsWorstInput(t *testing.T) {
	if testing.Short() {
		t.Skip("with the race detector, no time is that of the function")
	}
	variables := slices.Collect(func(yield func(string) bool) {
		for name := range inputs(1) {
			if !yield(name) {
				return
			}
		}
	})
	env, err := NewEnv(CallLimit, variables, hasConditions(), parseJSONOf())
	if err != nil {
		t.Fatal(err)
	}
	m := &meter{env: env}
	m.calibrate(t)
	sized := map[int]map[string]any{}
	for _, n := range []int{1000, 50_000} {
		sized[n] = inputs(n)
	}
	for name, f := range env.env.Functions() {
		if authorizer.Has(name) {
			continue
		}
		if _, priced := prices[name]; !priced && !constant.Has(name) && len(f.OverloadDecls()[0].ArgTypes()) > 0 {
			t.Errorf("the function %s has no price, and so that of the unknown: find out what it costs, and give it one", name)
		}
		texts, written := spelled[name]
		for _, o := range f.OverloadDecls() {
			if written {
				break
			}
			some := calls(name, o)
			if len(some) == 0 {
				t.Errorf("the overload %s of the function %s is not called: say what its arguments are", o.ID(), name)
			}
			texts = append(texts, some...)
		}
		if text, ok := valid[name]; ok {
			texts = append(texts, text)
		}
		t.Run(name, func(t *testing.T) {
			called := len(texts) == 0
			for _, text := range texts {
				for n, sizes := 1000, 2; sizes > 0; n, sizes = n*50, sizes-1 {
					err := m.fair(t, text, sized[n])
					if errors.Is(err, ErrCompile) {
						break
					}
					called = called || err == nil
					if errors.Is(err, ErrCall) || errors.Is(err, ErrBudget) {
						break
					}
				}
			}
			if !called {
				t.Errorf("no call of it succeeds, of %d such as %s", len(texts), texts[0])
			}
		})
	}
	for name := range prices {
		if _, known := env.env.Functions()[name]; !known && name != "scores" && name != listLiteral && name != mapLiteral {
			t.Errorf("there is no function %s: remove its price", name)
		}
	}
}

// A function that comes with another version of a library is guarded before anybody
// has looked at it: by the square of what it is given, numbers by their value.
func TestUnknownFunctionsAreGuarded(t *testing.T) {
	calls := 0
	env, err := NewEnv(CallLimit, []string{"text"}, cel.Function("newfangled",
		cel.MemberOverload("newfangled_text_int", []*cel.Type{cel.StringType, cel.IntType}, cel.BoolType,
			cel.BinaryBinding(func(ref.Val, ref.Val) ref.Val { calls++; return types.True }))))
	if err != nil {
		t.Fatal(err)
	}
	for text, refused := range map[string]bool{
		`text.newfangled(1)`:             true,
		`"a".newfangled(1000000000)`:     true,
		`"a".newfangled(-1000000000)`:    true,
		`"a".newfangled(100)`:            false,
		`text.size() > 0`:                false,
		`text.contains("a")`:             false,
		`[text, text].all(x, x == text)`: false,
	} {
		before, budget := calls, NewBudget()
		_, err := env.True(context.Background(), text, map[string]any{"text": strings.Repeat("a", 10_000)}, budget)
		if errors.Is(err, ErrCall) != refused || refused && (calls != before || !TooCostly(err)) || !refused && err != nil {
			t.Errorf("%s: got %v after %d calls", text, err, calls-before)
		}
		if strings.HasSuffix(text, "(100)") && budget.Spent() < 10_000 {
			t.Errorf("%s costs %d", text, budget.Spent())
		}
	}
}

// A loop takes time by the length of its list, and not by its square.
func TestLoopsTakeTimeByTheirLength(t *testing.T) {
	env, err := NewEnv(CallLimit, []string{"ints"})
	if err != nil {
		t.Fatal(err)
	}
	m := &meter{env: env}
	m.calibrate(t)
	for _, text := range []string{
		"ints.all(x, x >= 0)", "ints.exists(x, x < 0)", "ints.map(x, x).size() > 0", "ints.filter(x, x < 0).size() > 0",
		"ints.exists_one(x, x < 0)", "ints.transformList(i, x, i).size() > 0", "ints.all(x, x < 0 || x >= 0)",
		"ints.all(x, [x, x].exists(y, y == x))",
	} {
		if err := m.fair(t, text, map[string]any{"ints": make([]int64, 30_000), "aaa": ""}); err != nil && !TooCostly(err) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
