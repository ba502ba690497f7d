package fieldpath

import (
	"cmp"
	"fmt"
	"reflect"
)

// compare compares two plain values of one type, numbers with numbers. What
// cannot be compared is an error.
func compare(a any, operator string, b any) (bool, error) {
	order, err := compareSameType(a, b)
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
func compareSameType(a, b any) (int, error) {
	switch a := a.(type) {
	case string:
		if b, ok := b.(string); ok {
			return cmp.Compare(a, b), nil
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
	return 0, fmt.Errorf("%s and %s cannot be compared", kindOf(a), kindOf(b))
}

// jqOrder compares values of any type as jq does: null, false, true, numbers,
// texts, lists, objects. Two lists or objects are only
// compared for equality.
func jqOrder(a, b any) int {
	if c := cmp.Compare(jqTypeRank(a), jqTypeRank(b)); c != 0 {
		return c
	}
	if c, err := compareSameType(a, b); err == nil {
		return c
	}
	if a == nil || reflect.DeepEqual(a, b) {
		return 0
	}
	return -1
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
