package template

import (
	"fmt"
)

// objectIn is the object in a field, and nil where there is none. at is where fields
// stands, for messages.
func objectIn(fields map[string]any, at, field string) (map[string]any, error) {
	switch x := fields[field].(type) {
	case nil:
		return nil, nil
	case map[string]any:
		return x, nil
	default:
		return nil, fmt.Errorf("%s is %s, and has to be an object", join(at, field), quoted(fmt.Sprint(x)))
	}
}

// listIn is the list in a field, and nil where there is none.
func listIn(fields map[string]any, at, field string) ([]any, error) {
	switch x := fields[field].(type) {
	case nil:
		return nil, nil
	case []any:
		return x, nil
	default:
		return nil, fmt.Errorf("%s is %s, and has to be a list", join(at, field), quoted(fmt.Sprint(x)))
	}
}

// objectsIn are the objects in a list.
func objectsIn(fields map[string]any, at, field string) ([]map[string]any, error) {
	list, err := listIn(fields, at, field)
	if err != nil {
		return nil, err
	}
	out := make([]map[string]any, 0, len(list))
	for i, item := range list {
		x, ok := item.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s[%d] is %s, and has to be an object", join(at, field), i, quoted(fmt.Sprint(item)))
		}
		out = append(out, x)
	}
	return out, nil
}

func join(at, field string) string {
	if at == "" {
		return field
	}
	return at + "." + field
}
