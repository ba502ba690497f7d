package expression

import (
	"context"
	"fmt"
	"reflect"

	"github.com/google/cel-go/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// Program is an expression that is ready to run, for who holds on to it: it
// costs no look-up, and is there however many others an environment has
// compiled since. It may be used by many at once.
type Program struct{ program cel.Program }

// Compile makes an expression ready to run; its error wraps ErrCompile.
func (e *Env) Compile(expression string) (*Program, error) {
	c := e.compile(expression)
	if c.err != nil {
		return nil, c.err
	}
	return &Program{c.program}, nil
}

// True tells whether the expression holds, and takes its cost from the budget.
func (p *Program) True(ctx context.Context, variables map[string]any, budget *Budget) (bool, error) {
	return asBool(p.evaluate(ctx, variables, budget))
}

func (p *Program) evaluate(ctx context.Context, variables map[string]any, budget *Budget) (any, error) {
	out, details, err := p.program.ContextEval(ctx, variables)
	if details != nil && details.ActualCost() != nil {
		budget.left -= int64(min(*details.ActualCost(), celconfig.PerCallLimit))
	}
	if err != nil {
		return nil, err
	}
	if budget.left < 0 {
		return nil, fmt.Errorf("%w: the expressions about one object cost too much together", ErrBudget)
	}
	return out.Value(), nil
}

func asBool(value any, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	holds, ok := value.(bool)
	if !ok {
		return false, fmt.Errorf("expected bool result, got %v", reflect.TypeOf(value))
	}
	return holds, nil
}
