package manifest

import workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"

// Entries are the reported conditions of a work's manifests by identity.
type Entries map[workv1.ManifestResourceMeta][]*workv1.ManifestCondition

// EntriesOf indexes the reported conditions of a work.
func EntriesOf(list []workv1.ManifestCondition) Entries {
	out := make(Entries, len(list))
	for i := range list {
		id := list[i].ResourceMeta
		id.Ordinal = 0
		out[id] = append(out[id], &list[i])
	}
	return out
}

// Find is the entry of a manifest: with the same place and identity, or with
// the same identity when only one has it.
func (e Entries) Find(m workv1.ManifestResourceMeta) *workv1.ManifestCondition {
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
