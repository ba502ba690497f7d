package ownership

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// Difference is one field in which an object is not as it would be.
type Difference struct {
	// Path is that of the field, such as spec.predicates or metadata.labels[env].
	Path string
	// There is its value on the server, nil when it has none; Here is the value
	// that it would get, nil when it would lose it.
	There, Here any
}

// Added reports whether the field is only added, and nothing changed or removed.
func (d Difference) Added() bool { return d.There == nil }

// Text describes the difference. Values are only told when they are short and
// open.
func (d Difference) Text(open bool) string {
	switch {
	case d.There == nil:
		return d.Path + " is only here"
	case d.Here == nil:
		return d.Path + " is only there"
	}
	there, ok := scalar(d.There)
	here, okToo := scalar(d.Here)
	if !open || !ok || !okToo {
		return d.Path + " differs"
	}
	return fmt.Sprintf("%s is %s there and %s here", d.Path, there, here)
}

func scalar(value any) (string, bool) {
	switch value.(type) {
	case map[string]any, []any:
		return "", false
	}
	text, err := json.Marshal(value)
	return string(text), err == nil && len(text) <= 80
}

// Differences lists in what two states of an object differ, by path. The marks of
// owners and what the server keeps by itself do not count, and the status only
// with it.
func Differences(there, here any, status bool) ([]Difference, error) {
	was, err := fieldsOf(there, status)
	if err != nil {
		return nil, err
	}
	is, err := fieldsOf(here, status)
	if err != nil {
		return nil, err
	}
	var found []Difference
	compare("", was, is, &found)
	return found, nil
}

func fieldsOf(object any, status bool) (map[string]any, error) {
	text, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("comparing objects: %w", err)
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, fmt.Errorf("comparing objects: %w", err)
	}
	metadata, _ := fields["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	delete(annotations, cluster.TerraformOwnerAnnotation)
	kept := map[string]any{}
	for name, value := range map[string]any{"labels": metadata["labels"], "annotations": annotations} {
		if entries, _ := value.(map[string]any); len(entries) > 0 {
			kept[name] = entries
		}
	}
	fields["metadata"] = kept
	delete(fields, "apiVersion")
	delete(fields, "kind")
	if !status {
		delete(fields, "status")
	}
	return fields, nil
}

func compare(path string, there, here any, found *[]Difference) {
	if reflect.DeepEqual(there, here) {
		return
	}
	was, is := entries(path, there), entries(path, here)
	if was == nil || is == nil {
		*found = append(*found, Difference{Path: path, There: there, Here: here})
		return
	}
	keys := slices.Sorted(maps.Keys(was))
	for key := range is {
		if _, ok := was[key]; !ok {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		compare(key, was[key], is[key], found)
	}
}

// entries are the values below path, by the path of each; nil when they have to be
// compared as one.
func entries(path string, value any) map[string]any {
	below := map[string]any{}
	switch value := value.(type) {
	case map[string]any:
		for key, child := range value {
			below[join(path, key)] = child
		}
	case []any:
		for _, element := range value {
			name := nameOf(element)
			at := fmt.Sprintf("%s[%s]", path, name)
			if _, twice := below[at]; name == "" || twice {
				return nil
			}
			below[at] = element
		}
	case nil:
		if strings.HasPrefix(path, "metadata") {
			return below // Its labels and annotations are told one by one.
		}
		return nil
	default:
		return nil
	}
	return below
}

func join(path, key string) string {
	switch path {
	case "":
		return key
	case "metadata.labels", "metadata.annotations":
		return fmt.Sprintf("%s[%s]", path, key)
	}
	return path + "." + key
}

// nameOf tells the elements of a list apart: a whole object by its kind and name,
// another element by its name alone.
func nameOf(element any) string {
	fields, ok := element.(map[string]any)
	if !ok {
		return ""
	}
	if metadata, ok := fields["metadata"].(map[string]any); ok {
		kind, _ := fields["kind"].(string)
		name, _ := metadata["name"].(string)
		if namespace, _ := metadata["namespace"].(string); namespace != "" {
			name = namespace + "/" + name
		}
		if kind == "" {
			return ""
		}
		return kind + " " + name
	}
	name, _ := fields["name"].(string)
	return name
}
