// Package expression evaluates CEL over Kubernetes objects, with Kubernetes'
// libraries and bounds on what an expression may cost: an expensive one delays only
// its author's objects. It imports nothing else of muster.
//
// An expression is refused when it is compiled for its length, or for what it
// would cost on any object. An evaluation ends when it has cost too much, and at
// the latest with its context or after Timeout.
package expression

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
	"k8s.io/apimachinery/pkg/util/version"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/utils/lru"

	"github.com/muster-fleet/terraform-provider-muster/internal/recovery"
	"github.com/muster-fleet/terraform-provider-muster/internal/text"
)

const (
	// compiledExpressions is how many expressions are kept ready to run, and
	// shortExpression how long those are at the most, in bytes: a program takes a
	// hundred times the room of its text.
	compiledExpressions = 1000
	shortExpression     = 1 << 10

	// checkFrequency is how many steps of a loop there are between two looks at
	// whether the evaluation's context has ended.
	checkFrequency = 20
)

// libraries is the version of Kubernetes whose CEL libraries there are.
var libraries = version.MajorMinor(1, 37)

// ErrCompile marks an expression that cannot be run on any object.
var ErrCompile = errors.New("compilation failed")

// ErrBudget marks an evaluation that has cost too much, by itself or together
// with those before it.
var ErrBudget = errors.New("out of cost budget")

// ErrTimeout marks an evaluation that took longer than Timeout.
var ErrTimeout = fmt.Errorf("the expression took longer than %s", Timeout)

// TooCostly reports whether an evaluation ended because of what it cost: its
// expression is at fault, or what it was given.
func TooCostly(err error) bool {
	return errors.Is(err, ErrBudget) || errors.Is(err, ErrTimeout) || errors.Is(err, ErrCall)
}

// Env compiles expressions, each once, and evaluates them. It is safe for
// concurrent use.
type Env struct {
	env      *cel.Env
	limit    int
	programs *lru.Cache

	// compiling is held for a compilation, which nothing interrupts: however many
	// ask for one at once, they take one processor.
	compiling sync.Mutex
}

// NewEnv makes an environment in which expressions see these variables, of any
// type, have these functions beside Kubernetes' own, and one evaluation may cost
// as much as limit, such as CallLimit.
func NewEnv(limit int, variables []string, functions ...cel.EnvOption) (*Env, error) {
	options := functions
	for _, v := range variables {
		options = append(options, cel.Variable(v, cel.DynType))
	}
	set, err := environment.MustBaseEnvSet(libraries).Extend(environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0), EnvOptions: options,
	})
	if err != nil {
		return nil, fmt.Errorf("prepare the CEL environment: %w", err)
	}
	return &Env{env: set.StoredExpressionsEnv(), limit: limit, programs: lru.New(compiledExpressions)}, nil
}

// Budget is what evaluations together may cost, in CEL's units.
type Budget struct{ limit, left int64 }

// NewBudget is what the expressions about one object may cost together:
// ObjectBudget.
func NewBudget() *Budget { return BudgetOf(ObjectBudget) }

// BudgetOf is a budget of so much.
func BudgetOf(limit int64) *Budget { return &Budget{limit: limit, left: limit} }

// Spent is what the evaluations have cost until now; it may be more than they
// were allowed, by what the last of them cost.
func (b *Budget) Spent() int64 { return b.limit - b.left }

// compiled is an expression that can be run, or why it cannot.
type compiled struct {
	program *Program
	err     error
}

// Check reports whether an expression can be compiled; its error wraps ErrCompile,
// or ErrLimits when the expression is too long or too costly.
func (e *Env) Check(expression string) error {
	_, err := e.Compile(expression)
	return err
}

// Compile makes an expression ready to run; its error is that of Check.
func (e *Env) Compile(expression string) (*Program, error) {
	if known, ok := e.programs.Get(expression); ok {
		return known.(compiled).program, known.(compiled).err
	}
	program, err := e.compile(expression)
	if len(expression) <= shortExpression {
		e.programs.Add(expression, compiled{program, err})
	}
	return program, err
}

func (e *Env) compile(expression string) (_ *Program, err error) {
	defer recovery.Into(&err)
	if err := checkText(expression); err != nil {
		return nil, err
	}
	e.compiling.Lock()
	defer e.compiling.Unlock()
	parsed, issues := e.env.Parse(expression)
	if len(issues.Errors()) > 0 {
		return nil, compileError(expression, issues)
	}
	if err := errors.Join(checkShape(parsed.NativeRep()), checkPatterns(parsed.NativeRep())); err != nil {
		return nil, err
	}
	loosen(parsed.NativeRep())
	checked, issues := e.env.Check(parsed)
	if len(issues.Errors()) > 0 {
		return nil, compileError(expression, issues)
	}
	costs := &estimator{limit: e.limit}
	// The size of the variables is not known, so the upper bound of the cost says
	// nothing. The lower bound does: it is the cost of what is written out.
	if cost, err := e.env.EstimateCost(checked, costs); err == nil && cost.Min > uint64(e.limit) {
		return nil, fmt.Errorf("%w: it costs at least %d units on any object, and %d are allowed: loop over less, or nest fewer loops", ErrLimits, cost.Min, e.limit)
	}
	program, err := e.env.Program(checked, cel.CostTracking(costs), cel.CostLimit(uint64(e.limit)), cel.InterruptCheckFrequency(checkFrequency), guarded(e.env, e.limit))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCompile, err)
	}
	return &Program{program: program, limit: e.limit}, nil
}

// True reports whether an expression holds, and takes its cost from the budget.
func (e *Env) True(ctx context.Context, expression string, variables map[string]any, budget *Budget) (bool, error) {
	program, err := e.Compile(expression)
	if err != nil {
		return false, err
	}
	return program.True(ctx, variables, budget)
}

func (e *Env) evaluate(
	ctx context.Context, expression string, variables map[string]any, budget *Budget,
) (ref.Val, error) {
	program, err := e.Compile(expression)
	if err != nil {
		return nil, err
	}
	return program.evaluate(ctx, variables, budget)
}

// Text is an expression's value, which has to be a string.
func (e *Env) Text(ctx context.Context, expression string, variables map[string]any, budget *Budget) (string, error) {
	value, err := e.evaluate(ctx, expression, variables, budget)
	if err != nil {
		return "", err
	}
	text, ok := value.(types.String)
	if !ok {
		return "", fmt.Errorf("expected string result, got %s", typeOf(value))
	}
	return string(text), nil
}

// Scalar is an expression's value, which has to be a text, a number or a boolean: a string,
// bool, int64, uint64 or float64.
func (e *Env) Scalar(ctx context.Context, expression string, variables map[string]any, budget *Budget) (any, error) {
	value, err := e.evaluate(ctx, expression, variables, budget)
	if err != nil {
		return nil, err
	}
	switch value.(type) {
	case types.String, types.Bool, types.Int, types.Uint, types.Double:
		return value.Value(), nil
	}
	return nil, fmt.Errorf("expected a text, a number or a boolean, got %s", typeOf(value))
}

// What an expression may cost. Costs are in CEL's units. Kubernetes reckons
// ten million of them to a second; a busy machine takes three times as long.
const (
	// CallLimit is what one evaluation may cost, as in Kubernetes: about a tenth of
	// a second.
	CallLimit = celconfig.PerCallLimit

	// ObjectBudget is what all expressions about one object may cost together, as
	// about one custom resource in Kubernetes: about a second.
	ObjectBudget = celconfig.RuntimeCELCostBudget

	// Timeout ends an evaluation, whatever it has cost until then. It is a net below
	// the costs: a machine that is busy enough may reach it with less.
	Timeout = 10 * time.Second
)

// How much text there may be.
const (
	// MaxLength is how long an expression may be, in bytes, as Kubernetes' selectors
	// of devices.
	MaxLength = 10 << 10

	// MaxNumber is how many expressions one object may have, and MaxTotal how long
	// they may be together, in bytes.
	MaxNumber = 64
	MaxTotal  = 16 << 10

	// excerpt is how much of an expression errors show, shownErrors
	// how many errors in it, and longestError how long these are together; lengths are in bytes.
	excerpt      = 60
	shownErrors  = 3
	longestError = 3 << 10
)

// What functions may be given. An evaluation notices what a call has cost only
// when it is over, so that no single call may take long.
const (
	// maxCall is what a call may cost: some hundredths of a second.
	maxCall = 250_000
	// smallText is how long a text may be for which no price is reckoned, in bytes.
	smallText = 64
	// maxQuantity is how long the text of a quantity, a version, an address or a range
	// of addresses may be, in bytes, and maxURL that of a URL.
	maxQuantity = 1_000
	maxURL      = 16 << 10
	// maxPattern is how many states a regular expression may have, about, and
	// stepsPerUnit how many steps of a match cost a unit: its states times the text's
	// length is how many it may take.
	maxPattern   = 2_000
	stepsPerUnit = 20
	// lettersPerUnit is how many letters are compared in a search for a unit.
	lettersPerUnit = 20
)

// ErrLimits marks an expression that is refused because of its length or of what
// it would cost on any object.
var ErrLimits = errors.New("beyond the limits of expressions")

// Named is an expression with the path of the field that holds it.
type Named struct{ Path, Text string }

// CheckTexts checks that an object's expressions are not too many, nor too long. Its
// error, which wraps ErrLimits, names the field.
func CheckTexts(expressions []Named) error {
	if len(expressions) > MaxNumber {
		return fmt.Errorf("%w: %s is expression %d, and %d are allowed: join some of them with &&", ErrLimits, expressions[MaxNumber].Path, MaxNumber+1, MaxNumber)
	}
	total := 0
	for _, e := range expressions {
		if err := checkLength(e.Text); err != nil {
			return fmt.Errorf("%s: %q: %w", e.Path, Excerpt(e.Text), err)
		}
		if total += len(e.Text); total > MaxTotal {
			return fmt.Errorf("%w: with %s, the expressions have more than the %d bytes that they may have together: shorten them", ErrLimits, e.Path, MaxTotal)
		}
	}
	return nil
}

func checkLength(text string) error {
	if len(text) > MaxLength {
		return fmt.Errorf("%w: it has %d bytes, and %d are allowed: shorten it", ErrLimits, len(text), MaxLength)
	}
	return nil
}

// compileError says what is wrong with an expression. CEL shows all of the
// expression with every error in it, which for a long one with many errors makes
// megabytes.
func compileError(expression string, issues *cel.Issues) error {
	all := issues.Errors()
	if len(all) <= shownErrors && len(expression) <= shortExpression {
		if whole := issues.String(); len(whole) <= longestError {
			return fmt.Errorf("%w: %s", ErrCompile, whole)
		}
	}
	var shown []string
	for _, e := range all[:min(len(all), shownErrors)] {
		message := text.Cut(e.Message, longestError/shownErrors)
		shown = append(shown, fmt.Sprintf("ERROR: <input>:%d:%d: %s", e.Location.Line(), e.Location.Column()+1, message))
	}
	if more := len(all) - len(shown); more > 0 {
		shown = append(shown, fmt.Sprintf("and %d more", more))
	}
	return fmt.Errorf("%w: %s", ErrCompile, strings.Join(shown, "\n"))
}

// Excerpt is as much of an expression as errors and conditions show of it, on
// one line.
func Excerpt(s string) string {
	return text.Cut(strings.Join(strings.Fields(strings.ToValidUTF8(s, "")), " "), excerpt)
}

// Program is an expression that is ready to run. Its holder needs no look-up, and
// keeps it however many others the environment has compiled since. It is safe for
// concurrent use.
type Program struct {
	program cel.Program
	limit   int
}

// True reports whether the expression holds, and takes its cost from the budget.
func (p *Program) True(ctx context.Context, variables map[string]any, budget *Budget) (bool, error) {
	value, err := p.evaluate(ctx, variables, budget)
	if err != nil {
		return false, err
	}
	holds, ok := value.(types.Bool)
	if !ok {
		return false, fmt.Errorf("expected bool result, got %s", typeOf(value))
	}
	return bool(holds), nil
}

func (p *Program) evaluate(ctx context.Context, variables map[string]any, budget *Budget) (_ ref.Val, err error) {
	defer recovery.Into(&err)
	if err := ctx.Err(); err != nil {
		return nil, err // a short evaluation never looks
	}
	if budget.left < 0 {
		return nil, budget.exhausted()
	}
	ctx, end := context.WithTimeoutCause(ctx, Timeout, ErrTimeout)
	defer end()
	out, details, err := p.program.ContextEval(ctx, variables)
	if details != nil && details.ActualCost() != nil {
		// What was noticed only when it was done is not held against the others.
		budget.left -= int64(min(*details.ActualCost(), uint64(p.limit)))
	}
	var cancelled interpreter.EvalCancelledError
	switch {
	case errors.As(err, &cancelled) && cancelled.Cause == interpreter.CostLimitExceeded:
		return nil, fmt.Errorf("%w: the expression costs more than the limit of %d units: %w", ErrBudget, p.limit, err)
	case err != nil:
		return nil, err
	case budget.left < 0:
		return nil, budget.exhausted()
	}
	return out, nil
}

func (b *Budget) exhausted() error {
	return fmt.Errorf("%w: the expressions about one object cost more than %d units together", ErrBudget, b.limit)
}

// typeOf names the type of a value: as Go does for plain ones, and without a look
// into others.
func typeOf(value ref.Val) string {
	if small(value) {
		return reflect.TypeOf(value.Value()).String()
	}
	return value.Type().TypeName()
}

// ForConditions makes the environment of the expressions of works' condition
// rules, which see the live object as object.
func ForConditions() (*Env, error) { return NewEnv(CallLimit, []string{"object"}, hasConditions()) }

// ForMessages makes that of the rules' messages, which see the outcome as result
// besides.
func ForMessages() (*Env, error) {
	return NewEnv(CallLimit, []string{"object", "result"}, hasConditions())
}

// hasConditions is the CEL function that reports whether a status has conditions,
// for objects whose controller may not have seen them yet.
func hasConditions() cel.EnvOption {
	return cel.Function("hasConditions", cel.Overload("has_conditions_dyn", []*cel.Type{cel.DynType}, cel.BoolType,
		cel.UnaryBinding(func(status ref.Val) ref.Val {
			m, ok := status.(traits.Mapper)
			if !ok {
				return types.False
			}
			conditions, found := m.Find(types.String("conditions"))
			if !found {
				return types.False
			}
			list, ok := conditions.(traits.Lister)
			return types.Bool(ok && list.Size() != types.IntZero)
		})))
}
