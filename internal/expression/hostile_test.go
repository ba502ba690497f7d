package expression_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/muster-fleet/terraform-provider-muster/internal/expression"
)

// parseJSON is a function as placements have one.
func parseJSON() cel.EnvOption {
	return cel.Function("parseJSON", cel.MemberOverload("parse_json", []*cel.Type{cel.StringType}, cel.DynType,
		cel.UnaryBinding(func(text ref.Val) ref.Val {
			var value any
			if err := json.Unmarshal([]byte(text.(types.String)), &value); err != nil {
				return types.WrapErr(err)
			}
			return types.DefaultTypeAdapter.NativeToValue(value)
		})))
}

// nested are loops in each other, with something in the middle.
func nested(depth int, over, body string) string {
	for i := depth - 1; i >= 0; i-- {
		body = fmt.Sprintf("%s.all(v%d, %s)", over, i, body)
	}
	return body
}

// doubled has a value double its size again and again; one is what it is at first.
func doubled(times int, one, body, last string) string {
	return one + strings.Repeat(".map(a, "+body+")", times) + last
}

// bound has a value change again and again by loops over lists of one element, which
// cost nothing by themselves.
func bound(times int, one, body, last string) string {
	for range times {
		last = "[" + body + "].all(a, " + last + ")"
	}
	return one + ".all(a, " + last + ")"
}

// What is written to take long, or much memory, ends soon, and says that it cost
// too much. Some of these would take longer than the universe has been there.
func TestBombs(t *testing.T) {
	env, err := expression.NewEnv(bombBudget, []string{"object"}, parseJSON())
	if err != nil {
		t.Fatal(err)
	}
	const ten = "[0,1,2,3,4,5,6,7,8,9]"
	long := strings.Repeat("a", 200_000)
	object := map[string]any{
		"text": long, "json": "[" + strings.Repeat("1,", 20_000) + "1]", "ten": []any{int64(0), int64(1), int64(2), int64(3), int64(4), int64(5), int64(6), int64(7), int64(8), int64(9)},
		"wide": map[string]any{}, "names": make([]any, 5000), "pattern": "((a{30}){30}b?)*", "name": "a",
	}
	for i := range object["names"].([]any) {
		object["names"].([]any)[i] = fmt.Sprintf("name-%d", i)
		object["wide"].(map[string]any)[fmt.Sprintf("name-%d", i)] = "x"
	}
	for what, text := range map[string]string{
		"loops in loops over what is written out":  nested(6, ten, "v0+v1+v2+v3+v4+v5>=0"),
		"loops in loops over what is given":        nested(8, "object.ten", "v0+v1+v2+v3+v4+v5>=0"),
		"loops in loops that read JSON":            nested(3, "object.ten", "object.json.parseJSON() != null"),
		"text that doubles":                        doubled(30, `["x"]`, "a+a", `.all(a, a == a)`),
		"lists that double":                        doubled(30, "[[1]]", "a+a", ".all(a, a == a)"),
		"lists of lists of lists, compared":        doubled(30, "[[1]]", "[a,a]", ".all(a, a == a)"),
		"lists of lists of lists, looked for":      doubled(30, "[[1]]", "[a,a]", ".all(a, a in [a])"),
		"lists of lists of lists, written":         doubled(30, "[[1]]", "[a,a]", `.all(a, "%s".format([a]) != "")`),
		"lists of lists of lists, as a key":        doubled(30, "[[1]]", "[a,a]", `.all(a, {"x": 1}[dyn(a)] == 1)`),
		"maps of maps of maps, compared":           doubled(30, "[{1: 1}]", `{1: dyn(a), 2: dyn(a)}`, ".all(a, a == a)"),
		"maps by two variables":                    `[[1]]` + strings.Repeat(".transformList(i, a, [a,a])", 30) + ".all(a, a == a)",
		"optionals of optionals":                   doubled(30, "[optional.of([1])]", "optional.of([a, a])", ".all(a, a == a)"),
		"lists of lists of lists, made flat":       doubled(30, "[[1]]", "[a,a]", ".all(a, a.flatten(60).size() > 0)"),
		"lists of lists of lists, distinct":        doubled(30, "[[1]]", "[a,a]", ".all(a, [a,a].distinct().size() > 0)"),
		"lists of lists of lists, as sets":         doubled(30, "[[1]]", "[a,a]", ".all(a, sets.contains([a,a],[a]))"),
		"a long list of numbers":                   `lists.range(1000000000).size() > 0`,
		"long lists of numbers in loops":           nested(5, "lists.range(9999)", "v0 >= 0"),
		"long lists, distinct":                     `object.names.distinct().size() > 0`,
		"long lists as sets":                       `sets.contains(object.names, object.names)`,
		"text that is replaced by more":            `object.text.replace("a", object.text).size() > 0`,
		"text that is replaced by more, each time": `object.name` + strings.Repeat(`.replace("a", "aaaaaaaaaaaaaaaa")`, 20) + ` == "b"`,
		"text that is put between":                 `object.names.join(object.text).size() > 0`,
		"a number with many digits":                `"%.999999999f".format([1.0]) == ""`,
		"a number with many digits, put together":  `("%.99999" + "9999f").format([1.0]) == ""`,
		"a regular expression with repetitions":    `object.text.matches("(abcdefghijklm){300}")`,
		"a regular expression that is given":       `object.text.matches(object.pattern + object.pattern + object.pattern)`,
		"a regular expression put together":        `object.text.find("((a{30}" + "){30}b?)*c") == ""`,
		"all that a regular expression finds":      `object.text.findAll("(a{30}" + "){30}b?c").size() > 0`,
		"regular expressions in loops":             nested(6, "object.ten", `!object.text.matches("(a|b|c)*d" + string(v0))`),
		"characters in loops":                      nested(6, "object.ten", `object.text.charAt(v0) == "a"`),
		"conversions in loops":                     nested(6, "object.ten", `object.text.split("").size() > 0`),
		"a search in loops":                        nested(6, "object.ten", `object.text.indexOf("b") < 0`),
		"a search letter by letter":                `[object.text].all(a, [a+a].all(b, [b+b].all(c, (c+c).indexOf(c+'b') == -1)))`,
		"a search from the end":                    `[object.text].all(a, (a+a).lastIndexOf('b'+a) == -1)`,
		"lists of lists, by loops alone":           bound(30, "[[1]]", "[a, a]", "a == a"),
		"lists that double, by loops alone":        bound(30, "[[1]]", "a + a", "a == a"),
		"lists of lists as a result":               bound(30, "[[1]]", "[a, a]", "a"),
		"the length of a long text in loops":       nested(6, "object.ten", `object.text.size() > 0`),
		"time zones in loops":                      nested(6, "object.ten", `timestamp("2026-01-01T00:00:00Z").getHours("Europe/Berlin") > 0`),
		"a map in loops":                           nested(5, "object.ten", `object.wide.exists(k, true)`),
		"all that a regular expression tries":      `object.text.findAll("(?:a*b)|a").size() > 0`,
		"comparisons in loops":                     nested(6, "object.ten", `object == object`),
		"a great quantity":                         `quantity("1e1000000000").isGreaterThan(quantity("1"))`,
		"a small quantity":                         `quantity("1e-" + "1000000000").isGreaterThan(quantity("1"))`,
		"a long quantity":                          `!isQuantity(object.text)`,
		"a version in loops":                       nested(6, "object.ten", `!isSemver(object.text)`),
	} {
		t.Run(what, func(t *testing.T) {
			start := time.Now()
			budget := expression.BudgetOf(bombBudget)
			holds, err := env.True(context.Background(), text, map[string]any{"object": object}, budget)
			t.Logf("%s, %d units: %.120v", time.Since(start).Round(time.Millisecond), budget.Spent(), err)
			if holds || err == nil {
				t.Errorf("it was evaluated to its end")
			}
			if errors.Is(err, expression.ErrTimeout) {
				t.Errorf("only the clock ended it: %v", err)
			}
			if err != nil && !expression.TooCostly(err) && !errors.Is(err, expression.ErrLimits) && !strings.Contains(err.Error(), "more than an expression may do") {
				t.Errorf("got %v, want it to cost too much", err)
			}
		})
	}
}

// What is written to take long to compile is refused before it is checked. At
// twice the length each of these took several times as long, up to for ever.
func TestCompileBombs(t *testing.T) {
	env, err := expression.NewEnv(100_000, []string{"object"})
	if err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{
		"maps of maps":                 doubled(31, "[1]", "{a:a}", ".size() > 0"),
		"maps of maps of maps":         doubled(31, "[1]", "{a:{a:a}}", ".size() > 0"),
		"maps of lists, by index":      doubled(31, "[1]", "{[a][0]:a}", ".size() > 0"),
		"entries":                      "[1]" + strings.Repeat(".transformMapEntry(i, v, {v: v})", 31) + ".size() > 0",
		"lists of lists":               doubled(31, "[1]", "["+strings.Repeat("[[[[a]]]],", 30)+"[[[[a]]]]]", ".size() > 0"),
		"optionals":                    "optional.of(1)" + strings.Repeat(".optMap(a, {a: a})", 100) + ".hasValue()",
		"optionals of optionals":       "optional.of(1)" + strings.Repeat(".optFlatMap(a, optional.of([a]))", 100) + ".hasValue()",
		"loops":                        nested(100, "object.a", "v0"),
		"sums":                         doubled(31, "[1]", "["+strings.Repeat("[a]+", 50)+"[a]]", ".size() > 0"),
		"alternatives":                 strings.Repeat("(1+1)==2||", 900) + "true",
		"mistakes":                     doubled(31, "[1]", "{a: 1+'x'}", ".size() > 0"),
		"brackets":                     strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + " == 1",
		"regular expression":           `"a".matches("` + strings.Repeat("(a{100}b{100})", 100) + `")`,
		"regular expression, repeated": `"a".find("(([a-z]{30}){33}){1}x") == ""`,
		"length":                       `"` + strings.Repeat("a", expression.MaxLength) + `" == "a"`,
	} {
		t.Run(what, func(t *testing.T) {
			start := time.Now()
			err := env.Check(text)
			t.Logf("%d bytes, %s: %.120v", len(text), time.Since(start).Round(time.Millisecond), err)
			if err != nil && !errors.Is(err, expression.ErrLimits) && !errors.Is(err, expression.ErrCompile) {
				t.Errorf("got %v", err)
			}
			if err != nil && len(err.Error()) > 4<<10 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

// An evaluation ends with its context, in the middle of a loop.
func TestContextEnds(t *testing.T) {
	env, err := expression.NewEnv(1<<40, []string{"object"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	object := map[string]any{"ten": make([]int64, 10)}
	go func() {
		_, err := env.True(ctx, nested(12, "object.ten", "v0 >= 0"), map[string]any{"object": object}, expression.BudgetOf(1<<60))
		ended <- err
	}()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := env.True(ctx, "true", nil, expression.NewBudget()); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: got %v", err)
	}
}

func TestTexts(t *testing.T) {
	many := func(n, length int) (out []expression.Named) {
		for i := range n {
			out = append(out, expression.Named{Path: fmt.Sprintf("spec.e[%d]", i), Text: strings.Repeat("x", length)})
		}
		return out
	}
	for what, x := range map[string]struct {
		list []expression.Named
		want string
	}{
		"none":     {nil, ""},
		"most":     {many(expression.MaxNumber, expression.MaxTotal/expression.MaxNumber), ""},
		"many":     {many(expression.MaxNumber+1, 1), "spec.e[64] is expression 65, and 64 are allowed"},
		"long":     {many(1, expression.MaxLength+1), `spec.e[0]: "xxx`},
		"together": {many(2, expression.MaxTotal/2+1), "with spec.e[1], the expressions have more than the 16384 bytes"},
	} {
		err := expression.CheckTexts(x.list)
		if x.want == "" && err != nil || x.want != "" && (!errors.Is(err, expression.ErrLimits) || !strings.Contains(err.Error(), x.want)) {
			t.Errorf("%s: got %v, want %q", what, err, x.want)
		}
	}
	if got := expression.Excerpt("a\n  == " + strings.Repeat("ä", 100)); got != "a == "+strings.Repeat("ä", 26)+"..." {
		t.Errorf("got %s", got)
	}
}
