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
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/utils/lru"

	"github.com/muster-fleet/terraform-provider-muster/internal/recovery"
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
func (e *Env) Check(expression string) error { return e.get(expression).err }

func (e *Env) get(expression string) compiled {
	if c, ok := e.programs.Get(expression); ok {
		return c.(compiled)
	}
	c := compiled{}
	c.program, c.err = e.compile(expression)
	if len(expression) <= shortExpression {
		e.programs.Add(expression, c)
	}
	return c
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

// evaluate returns an expression's value and takes its cost from the budget.
func (e *Env) evaluate(
	ctx context.Context, expression string, variables map[string]any, budget *Budget,
) (ref.Val, error) {
	c := e.get(expression)
	if c.err != nil {
		return nil, c.err
	}
	return c.program.evaluate(ctx, variables, budget)
}

// True reports whether an expression holds.
func (e *Env) True(ctx context.Context, expression string, variables map[string]any, budget *Budget) (bool, error) {
	return asBool(e.evaluate(ctx, expression, variables, budget))
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
