// Package fieldpath reads and removes fields of objects by paths that users
// write: JSONPath in kubectl's dialect, and the paths of jq. The libraries only
// parse them. The evaluation is here, because the libraries bound neither time nor
// memory; here each value that a path looks at is taken from a Budget, which the
// paths of one object share.
//
// Objects are given as JSON decodes them. The package imports nothing of muster.
package fieldpath

import (
	"cmp"
	"context"
	"errors"
	"fmt"
)

// MaxLength is the longest path, in bytes.
const MaxLength = 1024

// tooLong refuses a path that is longer than MaxLength.
func tooLong(path string) error {
	if len(path) <= MaxLength {
		return nil
	}
	return fmt.Errorf("it is %d bytes long, more than the %d that a path may have", len(path), MaxLength)
}

// errEmpty refuses text without a path.
var errEmpty = errors.New("it is empty: write a path such as .spec.replicas")

const (
	// ObjectBudget is what all paths of one object may cost together. A unit is a
	// value that a path looks at, or textUnit bytes of a text that is compared. An
	// object of a MiB has some ten thousand values. All of it takes some hundredths
	// of a second.
	ObjectBudget = 300_000

	// textUnit is how many bytes of a text are compared for one unit.
	textUnit = 64
	// checkFrequency is how many units there are between two looks at whether the
	// context has ended.
	checkFrequency = 1000
)

// ErrLimit marks a path with which the paths of an object cost too much.
var ErrLimit = fmt.Errorf("with it, the paths look at more than the %d values of one object that they may look at "+
	"together: begin each with the names of fields, compare plain values instead of lists and objects, "+
	"or use fewer paths", ObjectBudget)

// Budget is what paths may cost together. It is not safe for concurrent use.
type Budget struct{ spent, limit, unchecked int }

// NewBudget is what the paths of one object may cost together: ObjectBudget.
func NewBudget() *Budget { return BudgetOf(ObjectBudget) }

// BudgetOf is a budget of so many units.
func BudgetOf(limit int) *Budget { return &Budget{limit: limit} }

// Spent is what the paths have cost until now. It is more than they were allowed
// when one has failed with ErrLimit.
func (b *Budget) Spent() int { return b.spent }

// Take takes units from the budget for work on the object that is not a path's.
// It fails with ErrLimit when they are more than are left, and with the cause of the
// context's end, which is looked for now and then.
func (b *Budget) Take(ctx context.Context, units int) error {
	if b.spent += units; b.spent > b.limit {
		return ErrLimit
	}
	if b.unchecked += units; b.unchecked < checkFrequency {
		return nil
	}
	b.unchecked = 0
	return context.Cause(ctx)
}

// evaluation is what the walks of both kinds of paths have in common.
type evaluation struct {
	ctx    context.Context
	budget *Budget
}

// begin begins a walk, unless it has ended before.
func begin(ctx context.Context, budget *Budget) (evaluation, error) {
	return evaluation{ctx, budget}, context.Cause(ctx)
}

func (e evaluation) take(units int) error { return e.budget.Take(e.ctx, units) }

// ended reports whether an error ends all paths, other than one that is about a
// place in the object.
func (e evaluation) ended(err error) bool {
	return err != nil && (e.budget.spent > e.budget.limit || e.ctx.Err() != nil)
}

// same reports whether two values are equal.
func (e evaluation) same(a, b any) (bool, error) {
	if err := e.take(1); err != nil {
		return false, err
	}
	switch a := a.(type) {
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false, nil
		}
		for i := range a {
			if same, err := e.same(a[i], b[i]); err != nil || !same {
				return false, err
			}
		}
		return true, nil
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false, nil
		}
		for k, v := range a {
			w, ok := b[k]
			if !ok {
				return false, nil
			}
			if same, err := e.same(v, w); err != nil || !same {
				return false, err
			}
		}
		return true, nil
	case nil:
		return b == nil, nil
	}
	order, err := e.compareSameType(a, b)
	if errors.Is(err, errIncomparable) {
		return false, nil
	}
	return err == nil && order == 0, err
}

// errIncomparable marks two values of types that have no order.
var errIncomparable = errors.New("they cannot be compared")

// compare compares two plain values of one type, numbers with numbers. What
// cannot be compared is an error.
func (e evaluation) compare(a any, operator string, b any) (bool, error) {
	order, err := e.compareSameType(a, b)
	if err != nil {
		return false, err
	}
	switch operator {
	case "==":
		return order == 0, nil
	case "!=":
		return order != 0, nil
	}
	if _, truth := a.(bool); truth {
		return false, fmt.Errorf("truth values have no order, so %s does not compare them", operator)
	}
	switch operator {
	case "<":
		return order < 0, nil
	case "<=":
		return order <= 0, nil
	case ">":
		return order > 0, nil
	case ">=":
		return order >= 0, nil
	}
	return false, fmt.Errorf("unrecognized filter operator %s", operator)
}

// compareSameType is negative, 0 or positive, as cmp.Compare is. Truth values are
// equal or not.
func (e evaluation) compareSameType(a, b any) (int, error) {
	switch a := a.(type) {
	case string:
		if b, ok := b.(string); ok {
			return cmp.Compare(a, b), e.take(min(len(a), len(b)) / textUnit)
		}
	case bool:
		if b, ok := b.(bool); ok {
			if a == b {
				return 0, nil
			}
			return 1, nil
		}
	case int64:
		switch b := b.(type) {
		case int64:
			return cmp.Compare(a, b), nil
		case float64:
			return cmp.Compare(float64(a), b), nil
		}
	case float64:
		switch b := b.(type) {
		case int64:
			return cmp.Compare(a, float64(b)), nil
		case float64:
			return cmp.Compare(a, b), nil
		}
	}
	return 0, fmt.Errorf("%s and %s: %w", kindOf(a), kindOf(b), errIncomparable)
}

// jqOrder compares values of any type as jq does: null, false, true, numbers,
// texts, lists, objects. Two lists or objects are only compared for equality.
func (e evaluation) jqOrder(a, b any) (int, error) {
	if c := cmp.Compare(jqTypeRank(a), jqTypeRank(b)); c != 0 || a == nil {
		return c, nil
	}
	c, err := e.compareSameType(a, b)
	if !errors.Is(err, errIncomparable) {
		return c, err
	}
	if same, err := e.same(a, b); err != nil || same {
		return 0, err
	}
	return -1, nil
}

// jqTypeRank orders values of different types.
func jqTypeRank(v any) int {
	switch v := v.(type) {
	case nil:
		return 0
	case bool:
		if v {
			return 2
		}
		return 1
	case string:
		return 4
	case []any:
		return 5
	case map[string]any:
		return 6
	}
	return 3
}
