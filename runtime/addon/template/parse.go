package template

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
)

// parse reads as much of a template as can be read.
func parse(source *v1alpha1.AddOnTemplate) (*Template, []error) {
	t := &Template{source: source, counts: map[string]int{}}
	var problems []error
	for i, m := range source.Spec.AgentSpec.Workload.Manifests {
		at := fmt.Sprintf("manifests[%d]", i)
		read, err := readManifest(at, m.Raw)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		t.manifests = append(t.manifests, read...)
	}
	for _, m := range t.manifests {
		countPlaceholders(m.tree, t.counts)
	}
	for _, c := range source.Spec.AgentSpec.ManifestConfigs {
		countIn(t.counts, c.ResourceIdentifier.Name, c.ResourceIdentifier.Namespace)
	}
	t.placeholders = slices.Sorted(maps.Keys(t.counts))
	return t, problems
}

// readManifest reads a manifest. A List is as many as it has items.
func readManifest(at string, raw []byte) ([]manifest, error) {
	if len(raw) == 0 {
		return nil, fmt.Errorf("%s is empty: remove it, or write an object there", at)
	}
	tree, err := parseTree(raw)
	if err != nil {
		return nil, fmt.Errorf("%s %w", at, err)
	}
	object, err := objectOf(tree)
	if err != nil {
		return nil, fmt.Errorf("%s %w", at, err)
	}
	if object["kind"] != "List" || object["apiVersion"] != "v1" {
		return []manifest{{at, object}}, nil
	}
	items, ok := object["items"].([]any)
	if !ok {
		return nil, fmt.Errorf("%s (List) has no items: write its objects there, or remove it", at)
	}
	var out []manifest
	for i := range items {
		where := fmt.Sprintf("%s.items[%d]", at, i)
		item, err := objectOf(items[i])
		if err == nil && item["kind"] == "List" {
			err = errors.New("is a List inside a List: put its items into the outer one")
		}
		if err != nil {
			return nil, fmt.Errorf("%s %w", where, err)
		}
		out = append(out, manifest{where, item})
	}
	return out, nil
}

// objectOf is a tree that is an object.
func objectOf(tree any) (map[string]any, error) {
	switch x := tree.(type) {
	case map[string]any:
		if len(x) > 0 {
			return x, nil
		}
	case nil:
	case patterned:
		return nil, errors.New("has a placeholder in the name of one of its first fields: write apiVersion, kind, metadata and so on as they are")
	default:
		return nil, errors.New("is no object: write an object with apiVersion, kind and metadata")
	}
	return nil, errors.New("is empty: remove it, or write an object there")
}
