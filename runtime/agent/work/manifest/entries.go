package manifest

import workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"

// entries are what is reported of a work's manifests, to look things up in.
type entries map[workv1.ManifestResourceMeta][]*workv1.ManifestCondition

func EntriesOf(list []workv1.ManifestCondition) entries {
	out := make(entries, len(list))
	for i := range list {
		id := list[i].ResourceMeta
		id.Ordinal = 0
		out[id] = append(out[id], &list[i])
	}
	return out
}

// Find is the entry of a manifest: with the same place and identity, or with
// the same identity when only one has it.
func (e entries) Find(m workv1.ManifestResourceMeta) *workv1.ManifestCondition {
	id := m
	id.Ordinal = 0
	same := e[id]
	for _, entry := range same {
		if entry.ResourceMeta == m {
			return entry
		}
	}
	if len(same) == 1 {
		return same[0]
	}
	return nil
}
