package crud

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
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
	there, ok := scalarText(d.There)
	here, okToo := scalarText(d.Here)
	if !open || !ok || !okToo {
		return d.Path + " differs"
	}
	return fmt.Sprintf("%s is %s there and %s here", d.Path, there, here)
}

func scalarText(value any) (string, bool) {
	switch value.(type) {
	case map[string]any, []any:
		return "", false
	}
	text, err := json.Marshal(value)
	return string(text), err == nil && len(text) <= 80
}

// Differences lists in what two states of an object differ, by path. The marks of
// owners and of traces and what the server keeps by itself do not count, and the status
// only with it.
func Differences(there, here any, status bool) ([]Difference, error) {
	was, err := jsonFields(there, status)
	if err != nil {
		return nil, err
	}
	is, err := jsonFields(here, status)
	if err != nil {
		return nil, err
	}
	var found []Difference
	compareFields("", was, is, &found)
	return found, nil
}

// inJSON is an object in JSON's terms.
func inJSON(object any) (fields map[string]any, err error) {
	text, err := json.Marshal(object)
	if err == nil {
		err = json.Unmarshal(text, &fields)
	}
	if err != nil {
		return nil, fmt.Errorf("read the fields of an object: %w", err)
	}
	return fields, nil
}

func jsonFields(object any, status bool) (map[string]any, error) {
	fields, err := inJSON(object)
	if err != nil {
		return nil, err
	}
	metadata, _ := fields["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	delete(annotations, cluster.TerraformOwnerAnnotation)
	delete(annotations, work.TraceparentAnnotation)
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

func compareFields(path string, there, here any, found *[]Difference) {
	if reflect.DeepEqual(there, here) {
		return
	}
	was, is := elementsAt(path, there), elementsAt(path, here)
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
		compareFields(key, was[key], is[key], found)
	}
}

// elementsAt are the values below path, by the path of each; nil when they have to be
// compared as one.
func elementsAt(path string, value any) map[string]any {
	below := map[string]any{}
	switch value := value.(type) {
	case map[string]any:
		for key, child := range value {
			below[joinPath(path, key)] = child
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

func joinPath(path, key string) string {
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

// A server-side apply leaves the fields that others have set and the configuration
// does not name. Some of these are the configuration's all the same: where leaving
// a field out means something, a value that somebody adds contradicts it.

// removeUnwanted removes the unwanted fields of an object that was just written. A
// list to which others have added becomes that of the configuration. Without Force
// that is a conflict with those who have set them.
func (w Write) removeUnwanted(ctx context.Context, client *kube.Client, written kube.Object) error {
	unwanted := w.unwanted(written)
	if len(unwanted) == 0 {
		return nil
	}
	if !w.Force {
		return w.conflict(written, unwanted)
	}
	patch := map[string]any{"metadata": map[string]any{"resourceVersion": written.GetResourceVersion()}}
	for _, path := range unwanted {
		at := patch
		for _, name := range path[:len(path)-1] {
			below, ok := at[name].(map[string]any)
			if !ok {
				below = map[string]any{}
				at[name] = below
			}
			at = below
		}
		wanted, err := valueAt(w.Object, path)
		if err != nil {
			return err
		}
		there, err := valueAt(written, path)
		if err != nil {
			return err
		}
		at[path[len(path)-1]] = replacement(there, wanted)
	}
	return client.MergePatch(ctx, written, w.Manager, patch)
}

// replacement is what a merge patch says for a value to become another one: what an
// object has that is not wanted is null.
func replacement(there, wanted any) any {
	fields, ok := wanted.(map[string]any)
	if !ok {
		return wanted
	}
	patch := maps.Clone(fields)
	had, _ := there.(map[string]any)
	for name, value := range had {
		if _, ok := fields[name]; ok {
			patch[name] = replacement(value, fields[name])
		} else {
			patch[name] = nil
		}
	}
	return patch
}

func (w Write) unwanted(object kube.Object) [][]string {
	if w.Unwanted == nil {
		return nil
	}
	return w.Unwanted(object)
}

// withUnwanted adds the unwanted fields to the differences of taking an object over.
func (w Write) withUnwanted(object kube.Object, differences []Difference) ([]Difference, error) {
	for _, path := range w.unwanted(object) {
		value, err := valueAt(object, path)
		if err != nil {
			return nil, err
		}
		differences = append(differences, Difference{Path: strings.Join(path, "."), There: value})
	}
	return differences, nil
}

// conflict is the error of fields that others have set, as the server would tell it.
func (w Write) conflict(object kube.Object, unwanted [][]string) error {
	conflicts := w.owners(object, unwanted)
	causes := make([]metav1.StatusCause, 0, len(conflicts))
	for _, c := range conflicts {
		causes = append(causes, metav1.StatusCause{Type: metav1.CauseTypeFieldManagerConflict, Field: c.Field,
			Message: "conflict with " + c.Owner})
	}
	return apierrors.NewApplyConflict(causes,
		fmt.Sprintf("%d fields are set that the configuration leaves out", len(causes)))
}

// owners tells who has set the unwanted fields.
func (w Write) owners(object kube.Object, unwanted [][]string) []kube.Conflict {
	conflicts := make([]kube.Conflict, 0, len(unwanted))
	for _, path := range unwanted {
		owner := "nobody who is known"
		for _, entry := range object.GetManagedFields() {
			if entry.Subresource == "" && entry.Manager != w.Manager && FieldsOf(object, entry.Manager).Has(path...) {
				owner = fmt.Sprintf("%q using %s", entry.Manager, entry.APIVersion)
			}
		}
		conflicts = append(conflicts, kube.Conflict{Field: "." + strings.Join(path, "."), Owner: owner})
	}
	return conflicts
}

// valueAt is the value of a field in JSON's terms; nil when there is none.
func valueAt(object kube.Object, path []string) (any, error) {
	fields, err := inJSON(object)
	if err != nil {
		return nil, err
	}
	value, _, _ := unstructured.NestedFieldNoCopy(fields, path...) // Nothing below a text is nothing, too.
	return value, nil
}
