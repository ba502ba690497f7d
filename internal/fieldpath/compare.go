package fieldpath

import (
	"cmp"
	"errors"
	"fmt"
)

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
