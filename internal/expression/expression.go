// Package expression evaluates CEL over Kubernetes objects, with Kubernetes'
// libraries and Kubernetes' limits on what an expression may cost.
package expression

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/util/version"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/utils/lru"
)

// compiledExpressions is how many expressions are kept ready to run.
const compiledExpressions = 1000

// libraries is the version of Kubernetes whose CEL libraries there are.
var libraries = version.MajorMinor(1, 37)

// ErrCompile marks an expression that cannot be run on any object.
var ErrCompile = errors.New("compilation failed")

// ErrBudget marks an evaluation that ran out of its budget.
var ErrBudget = errors.New("out of cost budget")

// Env compiles expressions, each once, and evaluates them. It may be used by
// many at once.
type Env struct {
	env      *cel.Env
	programs *lru.Cache
}

// NewEnv makes an environment in which expressions see these variables, of any
// type, and have these functions beside Kubernetes' own.
func NewEnv(variables []string, functions ...cel.EnvOption) (*Env, error) {
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
	return &Env{env: set.StoredExpressionsEnv(), programs: lru.New(compiledExpressions)}, nil
}

// Budget is what evaluations together may cost, in CEL's units.
type Budget struct{ left int64 }

// NewBudget is what Kubernetes lets the rules about one object cost together:
// about a second.
func NewBudget() *Budget { return &Budget{left: celconfig.RuntimeCELCostBudget} }

// compiled is an expression that can be run, or why it cannot.
type compiled struct {
	program cel.Program
	err     error
}

// Check tells whether an expression can be compiled; its error wraps ErrCompile.
func (e *Env) Check(expression string) error { return e.compile(expression).err }

func (e *Env) compile(expression string) compiled {
	if c, ok := e.programs.Get(expression); ok {
		return c.(compiled)
	}
	c := compiled{}
	if ast, issues := e.env.Compile(expression); issues.Err() != nil {
		c.err = fmt.Errorf("%w: %w", ErrCompile, issues.Err())
	} else if c.program, c.err = e.env.Program(ast,
		cel.CostLimit(celconfig.PerCallLimit), cel.InterruptCheckFrequency(celconfig.CheckFrequency)); c.err != nil {
		c.err = fmt.Errorf("%w: %w", ErrCompile, c.err)
	}
	e.programs.Add(expression, c)
	return c
}

// Evaluate returns an expression's value and takes its cost from the budget.
func (e *Env) Evaluate(ctx context.Context, expression string, variables map[string]any, budget *Budget) (any, error) {
	c := e.compile(expression)
	if c.err != nil {
		return nil, c.err
	}
	return (&Program{c.program}).evaluate(ctx, variables, budget)
}

// True tells whether an expression holds.
func (e *Env) True(ctx context.Context, expression string, variables map[string]any, budget *Budget) (bool, error) {
	return asBool(e.Evaluate(ctx, expression, variables, budget))
}

// Text is an expression's value, which has to be a string.
func (e *Env) Text(ctx context.Context, expression string, variables map[string]any, budget *Budget) (string, error) {
	value, err := e.Evaluate(ctx, expression, variables, budget)
	if err != nil {
		return "", err
	}
	text, ok := value.(string)
	if !ok {
		return "", fmt.Errorf("expected string result, got %v", reflect.TypeOf(value))
	}
	return text, nil
}
