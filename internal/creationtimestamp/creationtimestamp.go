// Package creationtimestamp cleans manifests that Go programs have written: for an
// object that was never created they write a creationTimestamp of null, which would
// count as a difference from the object on the server. It works on objects as JSON
// decodes them and imports nothing of muster.
package creationtimestamp

// RemoveNull removes, in place, every creationTimestamp that is null from the
// metadata of an object and of the objects within it, such as pod templates and
// volume claim templates.
func RemoveNull(object any) {
	switch object := object.(type) {
	case map[string]any:
		if metadata, ok := object["metadata"].(map[string]any); ok {
			if t, ok := metadata["creationTimestamp"]; ok && t == nil {
				delete(metadata, "creationTimestamp")
			}
		}
		for _, field := range object {
			RemoveNull(field)
		}
	case []any:
		for _, item := range object {
			RemoveNull(item)
		}
	}
}
