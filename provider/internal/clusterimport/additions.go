package clusterimport

import (
	"encoding/json"
	"maps"
	"slices"
)

// fieldsOf is a value of the API in JSON's terms.
func fieldsOf(value any) map[string]any {
	text, _ := json.Marshal(value) // the API's own types
	fields := map[string]any{}
	_ = json.Unmarshal(text, &fields)
	return fields
}

// additions are the paths of fields that live has beyond mine, and of lists that are
// longer there.
func additions(mine, live map[string]any, at ...string) [][]string {
	var paths [][]string
	for _, name := range slices.Sorted(maps.Keys(live)) {
		here := append(slices.Clone(at), name)
		wanted, ok := mine[name]
		if !ok {
			paths = append(paths, here)
			continue
		}
		switch value := live[name].(type) {
		case map[string]any:
			if within, ok := wanted.(map[string]any); ok {
				paths = append(paths, additions(within, value, here...)...)
			}
		case []any:
			if list, ok := wanted.([]any); ok && len(value) > len(list) {
				paths = append(paths, here)
			}
		}
	}
	return paths
}
