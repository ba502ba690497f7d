package crud

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
)

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
