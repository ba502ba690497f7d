package crud

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// Fields are the fields of an object that one manager owns, read from its managedFields.
// It is how an import finds out what the configuration owns.
type Fields struct {
	trees []map[string]any
}

// FieldsOf collects what manager owns of obj, however it came by it. Ownership of
// subresources does not count.
func FieldsOf(obj metav1.Object, manager string) Fields {
	return fieldsBy(obj, func(name string) bool { return name == manager })
}

// WrittenFields collects what any manager has written into obj. What the API server fills in
// by default belongs to none.
func WrittenFields(obj metav1.Object) Fields { return fieldsBy(obj, func(string) bool { return true }) }

func fieldsBy(obj metav1.Object, by func(manager string) bool) Fields {
	var f Fields
	for _, entry := range obj.GetManagedFields() {
		if !by(entry.Manager) || entry.Subresource != "" || entry.FieldsV1 == nil {
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
		_, ok := descendFields(tree, path)
		return ok
	})
}

// Keys lists the owned entries of the map at path, sorted.
func (f Fields) Keys(path ...string) []string {
	var keys []string
	for _, tree := range f.trees {
		node, ok := descendFields(tree, path)
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

func descendFields(tree map[string]any, path []string) (map[string]any, bool) {
	for _, name := range path {
		next, ok := tree["f:"+name].(map[string]any)
		if !ok {
			return nil, false
		}
		tree = next
	}
	return tree, true
}

// DescribeWriters says whose an object is, as far as it tells: "created 3h ago and
// written by kubectl-edit (3m ago)". manager is the field manager of this
// provider.
func DescribeWriters(object metav1.Object, manager string, now time.Time) string {
	text := "created"
	if created := object.GetCreationTimestamp(); !created.IsZero() {
		text = fmt.Sprintf("created %s ago (%s)", duration.HumanDuration(now.Sub(created.Time)),
			created.UTC().Format(time.RFC3339))
	}
	if token := object.GetLabels()[cluster.TokenLabel]; token != "" {
		text += fmt.Sprintf(" with the bootstrap token %q", token)
	}
	if writers := writers(object, manager, now); len(writers) > 0 {
		text += " and written by " + strings.Join(writers, ", ")
	}
	if mark := OwnerMark(object); mark != "" {
		text += fmt.Sprintf("; another Terraform resource manages it, in this or another state (its mark, the "+
			"annotation %s, is %s)", cluster.TerraformOwnerAnnotation, mark)
	}
	return text
}

// writers are those who own fields of the object, the latest first.
func writers(object metav1.Object, manager string, now time.Time) []string {
	last := map[string]time.Time{}
	var names []string
	for _, entry := range object.GetManagedFields() {
		if entry.Subresource != "" {
			continue
		}
		if !slices.Contains(names, entry.Manager) {
			names = append(names, entry.Manager)
		}
		if entry.Time != nil && entry.Time.After(last[entry.Manager]) {
			last[entry.Manager] = entry.Time.Time
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Or(last[b].Compare(last[a]), cmp.Compare(a, b)) })
	for i, name := range names {
		if name == manager {
			names[i] = "this provider"
		} else {
			names[i] = fmt.Sprintf("%q", name)
		}
		if at := last[name]; !at.IsZero() {
			names[i] += fmt.Sprintf(" (%s ago)", duration.HumanDuration(now.Sub(at)))
		}
	}
	return names
}
