package crud

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
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

// A field that another field manager owns a part of is not removed when it leaves
// the configuration. So the first write of an object that was made with another
// tool takes over what that tool's field managers own.

// inherit gives the fields of the managers in from to the writer's manager. live is
// the object, and gets what the server makes of it. The fields' values stay.
func (w Write) inherit(ctx context.Context, client *kube.Client, live kube.Object, from []string) error {
	entries, changed := inheritedFields(live.GetManagedFields(), from, w.Manager, w.Foreign)
	if !changed {
		return nil
	}
	return client.MergePatch(ctx, live, w.Manager, map[string]any{"metadata": map[string]any{
		"resourceVersion": live.GetResourceVersion(), "managedFields": entries,
	}})
}

// inheritedFields are the entries after to has inherited. foreign, which may be nil, tells
// which fields stay with their managers.
func inheritedFields(
	entries []metav1.ManagedFieldsEntry, from []string, to string, foreign func(path string) bool,
) ([]metav1.ManagedFieldsEntry, bool) {
	var left []metav1.ManagedFieldsEntry
	heir := metav1.ManagedFieldsEntry{Manager: to, Operation: metav1.ManagedFieldsOperationApply,
		FieldsType: "FieldsV1"}
	own, gained := map[string]any{}, map[string]any{}
	for _, entry := range entries {
		var tree map[string]any
		if entry.Subresource != "" || entry.FieldsV1 == nil ||
			json.Unmarshal(entry.FieldsV1.GetRawBytes(), &tree) != nil {
			left = append(left, entry)
			continue
		}
		switch {
		case entry.Manager == to && entry.Operation == metav1.ManagedFieldsOperationApply:
			heir.APIVersion, heir.Time = entry.APIVersion, entry.Time
			uniteFields(own, tree)
		case slices.ContainsFunc(from, func(pattern string) bool { return isManager(pattern, entry.Manager) }):
			taken, kept := splitFields(tree, "", foreign)
			uniteFields(gained, taken)
			heir.APIVersion = cmp.Or(heir.APIVersion, entry.APIVersion)
			if len(kept) > 0 {
				left = append(left, withFields(entry, kept))
			}
		default:
			left = append(left, entry)
		}
	}
	if len(gained) == 0 {
		return entries, false
	}
	uniteFields(own, gained)
	return append(left, withFields(heir, own)), true
}

// isManager reports whether a field manager is the one that is meant. A * at the end
// stands for anything.
func isManager(pattern, manager string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(manager, prefix)
	}
	return pattern == manager
}

// splitFields parts a tree of fields by whether they are foreign. Labels and annotations
// are looked at one by one, and of the rest what is directly below spec.
func splitFields(tree map[string]any, at string, foreign func(path string) bool) (taken, kept map[string]any) {
	taken, kept = map[string]any{}, map[string]any{}
	for name, below := range tree {
		path := strings.TrimPrefix(at+"."+strings.TrimPrefix(name, "f:"), ".")
		nested, _ := below.(map[string]any)
		switch path {
		case "metadata", "metadata.labels", "metadata.annotations", "spec":
			t, k := splitFields(nested, path, foreign)
			if len(t) > 0 || len(k) == 0 {
				taken[name] = t
			}
			if len(k) > 0 {
				kept[name] = k
			}
			continue
		}
		if foreign != nil && foreign(path) {
			kept[name] = below
		} else {
			taken[name] = below
		}
	}
	return taken, kept
}

// uniteFields adds the fields of more to tree.
func uniteFields(tree, more map[string]any) {
	for name, below := range more {
		nested, _ := below.(map[string]any)
		there, ok := tree[name].(map[string]any)
		if !ok {
			tree[name] = maps.Clone(nested)
			continue
		}
		uniteFields(there, nested)
	}
}

func withFields(entry metav1.ManagedFieldsEntry, tree map[string]any) metav1.ManagedFieldsEntry {
	text, err := json.Marshal(tree)
	if err != nil {
		panic(fmt.Sprintf("maps of maps have become unwritable: %v", err))
	}
	entry.FieldsV1 = metav1.NewFieldsV1(string(text))
	return entry
}

// ForeignAnnotations are those of objects whose resource has no attribute for them:
// they stay with the tool that has set them. The one of kubectl apply goes.
func ForeignAnnotations(path string) bool {
	key, ok := strings.CutPrefix(path, "metadata.annotations.")
	return ok && key != corev1.LastAppliedConfigAnnotation
}

// ForeignMetadata is ForeignAnnotations for resources that have no attribute for
// labels either.
func ForeignMetadata(path string) bool {
	return strings.HasPrefix(path, "metadata.labels.") || ForeignAnnotations(path)
}
