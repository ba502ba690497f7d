package works

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/workdigest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// Input is what an add-on wants in one place.
type Input struct {
	Place
	Content
	// ManifestConfigs say how the manifests are treated.
	ManifestConfigs []workv1.ManifestConfigOption
	// DeleteOption and Executor are those that the template wants for its works; nil
	// for none.
	DeleteOption *workv1.DeleteOption
	Executor     *workv1.ManifestWorkExecutor
	// ManifestLimit is the greatest size of the manifests of a work, in bytes.
	ManifestLimit int
}

// Change is one work to write. Without Have the work is created, and without Want it
// is deleted.
type Change struct {
	Have, Want *workv1.ManifestWork
}

// Deploy are the changes that bring an add-on's manifests into a place. have are the
// works of the place, which may be lean ones with Names as their manifests; those with
// other names are left alone. Works that hold what is wanted are not among the changes.
// Works that get manifests come before those that only lose some, and before those that
// go.
//
// Upstream leaves the works as they are when there is nothing to deploy any more. Here
// they are deleted.
func Deploy(in Input, have []*workv1.ManifestWork) ([]Change, error) {
	limit := limitsFor(in.ManifestLimit)
	manifests, err := manifestsOf(in.Content.Deploy, limit)
	if err != nil {
		return nil, err
	}
	kept, err := in.keptHooks()
	if err != nil {
		return nil, err
	}
	byIndex := map[int]*workv1.ManifestWork{}
	for _, w := range have {
		if n, ok := in.index(w.Name); ok && in.Owns(w) {
			byIndex[n] = w
		}
	}
	bins := distribute(manifests, byIndex, limit)
	var gains, losses, deletes []Change
	keeps := false
	for _, n := range slices.Sorted(maps.Keys(bins)) {
		b := bins[n]
		switch {
		case b.frozen:
		case len(b.manifests) == 0:
			deletes = append(deletes, Change{Have: b.have})
		default:
			want := in.work(fmt.Sprintf("%s%d", in.prefix(), n), b.manifests)
			if kept != "" && !keeps {
				metav1.SetMetaDataAnnotation(&want.ObjectMeta, addon.PreDeleteManifestsAnnotation, kept)
				keeps = true
			}
			if c := (Change{Have: b.have, Want: want}); c.needed() && c.gains() {
				gains = append(gains, c)
			} else if c.needed() {
				losses = append(losses, c)
			}
		}
	}
	return slices.Concat(gains, losses, deletes), nil
}

// Hook is the change that brings the hooks into a place; ok is false when there is
// nothing to change.
func Hook(in Input, have []*workv1.ManifestWork) (c Change, ok bool, err error) {
	manifests, err := manifestsOf(in.Hooks, limitsFor(in.ManifestLimit))
	if err != nil {
		return c, false, err
	}
	size := 0
	for _, m := range manifests {
		size += m.size
	}
	if size > in.ManifestLimit {
		return c, false, fmt.Errorf("the manifests that run before the add-on is deleted have %d bytes, more than the %d that a work may have: make them smaller", size, in.ManifestLimit)
	}
	in.ManifestConfigs = hookConfigs(in.Hooks, in.ManifestConfigs)
	in.DeleteOption = nil // what has run is of no use any more
	c.Want = in.work(in.HookName(), manifests)
	for _, w := range have {
		if w.Name == in.HookName() && in.Owns(w) {
			c.Have = w
		}
	}
	if c.Have != nil && !c.Have.DeletionTimestamp.IsZero() {
		return c, false, nil
	}
	return c, c.needed(), nil
}

// work makes one of the works.
func (in Input) work(name string, manifests []manifest) *workv1.ManifestWork {
	w := &workv1.ManifestWork{ObjectMeta: in.metadata(name)}
	for _, m := range manifests {
		w.Spec.Workload.Manifests = append(w.Spec.Workload.Manifests, m.raw)
	}
	w.Spec.ManifestConfigs = withDefaults(in.ManifestConfigs)
	w.Spec.DeleteOption = deleteOption(in.DeleteOption, manifests)
	w.Spec.Executor = in.Executor
	return w
}

// owned are the annotations that are the add-on's alone to write.
func owned() []string { return []string{work.SpecHashAnnotation, addon.PreDeleteManifestsAnnotation} }

// needed reports whether a work differs from what is wanted.
func (c Change) needed() bool {
	if c.Have == nil {
		return true
	}
	for k, v := range c.Want.Labels {
		if c.Have.Labels[k] != v {
			return true
		}
	}
	for _, k := range owned() {
		have, found := c.Have.Annotations[k]
		if want, wanted := c.Want.Annotations[k]; have != want || found != wanted {
			return true
		}
	}
	return !c.hasOwners() || workdigest.Of(c.Have.Spec) != workdigest.Of(c.Want.Spec)
}

// gains reports whether a work gets an object that it does not hold.
func (c Change) gains() bool {
	if c.Have == nil {
		return true
	}
	held := map[key]bool{}
	for _, k := range keysOf(c.Have.Spec) {
		held[k] = true
	}
	return slices.ContainsFunc(keysOf(c.Want.Spec), func(k key) bool { return !held[k] })
}

// hasOwners reports whether a work names its owner.
func (c Change) hasOwners() bool {
	for _, want := range c.Want.OwnerReferences {
		if !slices.ContainsFunc(c.Have.OwnerReferences, func(r metav1.OwnerReference) bool {
			return sameOwner(r, want) && r.UID == want.UID && r.APIVersion == want.APIVersion
		}) {
			return false
		}
	}
	return true
}

// sameOwner reports whether two references name one object, in whatever version.
func sameOwner(a, b metav1.OwnerReference) bool { return a.Kind == b.Kind && a.Name == b.Name }

// Patch is the merge patch of a work that there is. It names the version that it was
// made from.
func (c Change) Patch() ([]byte, error) {
	annotations := map[string]any{}
	for _, k := range owned() {
		annotations[k] = nil
		if v, ok := c.Want.Annotations[k]; ok {
			annotations[k] = v
		}
	}
	metadata := map[string]any{"resourceVersion": c.Have.ResourceVersion, "uid": c.Have.UID, "labels": c.Want.Labels, "annotations": annotations}
	if !c.hasOwners() {
		owners := slices.DeleteFunc(slices.Clone(c.Have.OwnerReferences), func(r metav1.OwnerReference) bool {
			return slices.ContainsFunc(c.Want.OwnerReferences, func(want metav1.OwnerReference) bool { return sameOwner(r, want) })
		})
		metadata["ownerReferences"] = append(owners, c.Want.OwnerReferences...)
	}
	patch := map[string]any{"metadata": metadata}
	if workdigest.Of(c.Have.Spec) != workdigest.Of(c.Want.Spec) {
		spec, err := replacement(c.Want.Spec)
		if err != nil {
			return nil, err
		}
		patch["spec"] = spec
	}
	return json.Marshal(patch)
}

// replacement is a spec as a merge patch that leaves nothing of the one before.
func replacement(spec workv1.ManifestWorkSpec) (map[string]any, error) {
	manifests := make([]json.RawMessage, 0, len(spec.Workload.Manifests))
	for _, m := range spec.Workload.Manifests {
		manifests = append(manifests, m.Raw)
	}
	spec.Workload.Manifests = nil
	data, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	out := map[string]any{"deleteOption": nil, "manifestConfigs": nil, "executor": nil}
	if err := json.Unmarshal(data, &out); err != nil {
		return nil, err
	}
	if option, ok := out["deleteOption"].(map[string]any); ok {
		for _, field := range []string{"propagationPolicy", "selectivelyOrphans", "ttlSecondsAfterFinished"} {
			if _, ok := option[field]; !ok {
				option[field] = nil
			}
		}
	}
	out["workload"] = map[string]any{"manifests": manifests}
	return out, nil
}
