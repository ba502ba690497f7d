package decide

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/manifest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/report"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// Books are what an AppliedManifestWork is to list, and which of the objects that
// it lists are to be deleted, as the work no longer holds them.
type Books struct {
	Listed, Dropped []workv1.AppliedManifestResourceMeta
}

// Bookkeep is what to write down of the objects of a work, and what to delete.
// listed is what the AppliedManifestWork lists so far. ok is false while it is
// not known which objects there are: then all stays as it is.
//
// Until a work has been reported as applied once, nothing is deleted: a hub that
// was restored from a backup first sees what there is. And while the identity of
// any of its objects is not known, nothing is deleted either.
func Bookkeep(
	mw *workv1.ManifestWork, listed []workv1.AppliedManifestResourceMeta, manifests []*manifest.Manifest, outcomes []report.Outcome,
) (b Books, ok bool) {
	known := byIdentifier(listed)
	wanted := make(map[workv1.ResourceIdentifier]bool, len(manifests))
	for i, m := range manifests {
		wanted[m.Identifier()] = true
		switch o := outcomes[i]; {
		case m.Err == nil && o.Hidden:
			if r, ok := known[m.Identifier()]; ok {
				b.Listed = append(b.Listed, r) // whatever has become of it
			}
		case m.Err != nil || o.Fetched != nil:
			return Books{}, false
		case o.Exists:
			b.Listed = append(b.Listed, ResourceMeta(m, o.UID))
		case m.Owned: // still to be made
			b.Listed = append(b.Listed, ResourceMeta(m, ""))
		}
	}
	prune := meta.FindStatusCondition(mw.Status.Conditions, work.ConditionApplied) != nil
	for _, r := range listed {
		switch {
		case wanted[r.ResourceIdentifier]:
		case prune:
			b.Dropped = append(b.Dropped, r)
		default:
			b.Listed = append(b.Listed, r)
		}
	}
	return b, true
}

// Announce are the manifests whose objects an AppliedManifestWork has to list
// before they are made.
func Announce(manifests []*manifest.Manifest, listed []workv1.AppliedManifestResourceMeta) []*manifest.Manifest {
	var out []*manifest.Manifest
	known := byIdentifier(listed)
	for _, m := range manifests {
		if _, ok := known[m.Identifier()]; !ok && m.Err == nil && m.Owned {
			out = append(out, m)
		}
	}
	return out
}

// byIdentifier is a list of resources to look things up in.
func byIdentifier(resources []workv1.AppliedManifestResourceMeta) map[workv1.ResourceIdentifier]workv1.AppliedManifestResourceMeta {
	out := make(map[workv1.ResourceIdentifier]workv1.AppliedManifestResourceMeta, len(resources))
	for _, r := range resources {
		out[r.ResourceIdentifier] = r
	}
	return out
}

// ResourceMeta is how an AppliedManifestWork lists the object of a manifest.
func ResourceMeta(m *manifest.Manifest, uid types.UID) workv1.AppliedManifestResourceMeta {
	return workv1.AppliedManifestResourceMeta{
		ResourceIdentifier: m.Identifier(), Version: m.Meta.Version, UID: string(uid),
	}
}
