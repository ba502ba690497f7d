// Package ownership reads managedFields: which fields of an object belong to a
// field manager. It is how an import finds out what the configuration owns.
package ownership

import (
	"encoding/json"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Fields are the fields of an object that one manager owns.
type Fields struct {
	trees []map[string]any
}

// Of collects what manager owns of obj, however it came by it. Ownership of
// subresources does not count.
func Of(obj metav1.Object, manager string) Fields {
	var f Fields
	for _, entry := range obj.GetManagedFields() {
		if entry.Manager != manager || entry.Subresource != "" || entry.FieldsV1 == nil {
			continue
		}
		var tree map[string]any
		if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &tree); err != nil {
			continue // written by a later version of the API: as good as nothing
		}
		f.trees = append(f.trees, tree)
	}
	return f
}

// None reports whether the manager has never written the object.
func (f Fields) None() bool { return len(f.trees) == 0 }

// Has reports whether the field at path, or anything below it, is owned.
func (f Fields) Has(path ...string) bool {
	return slices.ContainsFunc(f.trees, func(tree map[string]any) bool {
		_, ok := descend(tree, path)
		return ok
	})
}

// Keys lists the owned entries of the map at path, sorted.
func (f Fields) Keys(path ...string) []string {
	var keys []string
	for _, tree := range f.trees {
		node, ok := descend(tree, path)
		if !ok {
			continue
		}
		for key := range node {
			if name, ok := strings.CutPrefix(key, "f:"); ok && !slices.Contains(keys, name) {
				keys = append(keys, name)
			}
		}
	}
	slices.Sort(keys)
	return keys
}

func descend(tree map[string]any, path []string) (map[string]any, bool) {
	for _, name := range path {
		next, ok := tree["f:"+name].(map[string]any)
		if !ok {
			return nil, false
		}
		tree = next
	}
	return tree, true
}
