package expression

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"

	"github.com/muster-fleet/terraform-provider-muster/internal/recovery"
)

// Program is an expression that is ready to run. Its holder needs no look-up, and
// keeps it however many others the environment has compiled since. It is safe for
// concurrent use.
type Program struct {
	program cel.Program
	limit   int
}

// Compile makes an expression ready to run; its error wraps ErrCompile, or
// ErrLimits when the expression is too long or too costly.
func (e *Env) Compile(expression string) (*Program, error) {
	c := e.get(expression)
	return c.program, c.err
}

// True reports whether the expression holds, and takes its cost from the budget.
func (p *Program) True(ctx context.Context, variables map[string]any, budget *Budget) (bool, error) {
	return asBool(p.evaluate(ctx, variables, budget))
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

func asBool(value ref.Val, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	holds, ok := value.(types.Bool)
	if !ok {
		return false, fmt.Errorf("expected bool result, got %s", typeOf(value))
	}
	return bool(holds), nil
}

// typeOf names the type of a value: as Go does for plain ones, and without a look
// into others.
func typeOf(value ref.Val) string {
	if small(value) {
		return reflect.TypeOf(value.Value()).String()
	}
	return value.Type().TypeName()
}
