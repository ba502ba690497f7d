package works

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-fleet/terraform-provider-muster/internal/workdigest"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// manifest is an object on its way into a work.
type manifest struct {
	key  key
	raw  workv1.Manifest
	size int
	// at is its place among the add-on's manifests.
	at int
	// stays names the object where it is to stay in the cluster.
	stays *workv1.OrphaningRule
}

// limits are the sizes of works.
type limits struct {
	// full is what a work has to stay below that a manifest is added to.
	full int
	// greatest is what a work may have when its manifests grow.
	greatest int
}

// limitsFor are those under the hub's limit for the manifests of a work: a fifth of
// it is left for manifests that grow.
func limitsFor(greatest int) limits { return limits{full: greatest / 5 * 4, greatest: greatest} }

// bin is a work that there is, or one to make.
type bin struct {
	have *workv1.ManifestWork
	// frozen says that the work is being deleted. What it held waits for its end:
	// another work with the same objects would lose them to its cleanup.
	frozen    bool
	manifests []manifest
	size      int
}

func (b *bin) add(m manifest) {
	b.manifests = append(b.manifests, m)
	b.size += m.size
}

// manifestsOf turns objects into manifests.
func manifestsOf(objects []*unstructured.Unstructured, l limits) ([]manifest, error) {
	out := make([]manifest, 0, len(objects))
	for i, o := range objects {
		raw, err := o.MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("the manifest %s: %w", describe(o), err)
		}
		if raw[len(raw)-1] == '\n' {
			raw = raw[:len(raw)-1]
		}
		m := manifest{key: keyOf(o), raw: workv1.Manifest{RawExtension: runtime.RawExtension{Raw: raw}}, at: i}
		if m.size = m.raw.Size(); m.size > l.greatest {
			return nil, fmt.Errorf("the manifest %s has %d bytes, more than the %d that a work may have: make it smaller, or have the hub take more with --manifest-limit",
				describe(o), m.size, l.greatest)
		}
		out = append(out, m)
	}
	setStaying(out, objects)
	return out, nil
}

// distribute puts manifests into works. have are the works that there are, by their
// indexes. Bins may be left without manifests.
func distribute(manifests []manifest, have map[int]*workv1.ManifestWork, l limits) map[int]*bin {
	bins := map[int]*bin{}
	holder := map[key]*bin{}
	for _, n := range slices.Sorted(maps.Keys(have)) {
		w := have[n]
		b := &bin{have: w, frozen: !w.DeletionTimestamp.IsZero()}
		bins[n] = b
		for _, k := range keysOf(w.Spec) {
			if holder[k] == nil {
				holder[k] = b
			}
		}
	}
	var homeless []manifest
	for _, m := range manifests {
		if b := holder[m.key]; b != nil {
			b.add(m)
		} else {
			homeless = append(homeless, m)
		}
	}
	for _, n := range slices.Sorted(maps.Keys(bins)) {
		homeless = append(homeless, bins[n].shrink(l)...)
	}
	// The largest first, as they find a place least easily.
	slices.SortStableFunc(homeless, func(a, b manifest) int {
		return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(a.at, b.at))
	})
	for _, m := range homeless {
		room(bins, m, l).add(m)
	}
	for _, b := range bins {
		slices.SortFunc(b.manifests, func(a, b manifest) int { return cmp.Compare(a.at, b.at) })
	}
	return bins
}

// room is the first work that a manifest fits into, or one more with the lowest index
// that is free.
func room(bins map[int]*bin, m manifest, l limits) *bin {
	for _, n := range slices.Sorted(maps.Keys(bins)) {
		if bins[n].takes(m, l) {
			return bins[n]
		}
	}
	n := 0
	for bins[n] != nil {
		n++
	}
	bins[n] = &bin{}
	return bins[n]
}

// takes reports whether there is room for a manifest. One that is large has a work of
// its own.
func (b *bin) takes(m manifest, l limits) bool {
	return !b.frozen && (b.size == 0 || b.size+m.size < l.full)
}

// shrink takes out of a work whose manifests have grown too large as few of them as it
// needs to have room again.
func (b *bin) shrink(l limits) (out []manifest) {
	for !b.frozen && b.size > l.greatest || len(out) > 0 && len(b.manifests) > 1 && b.size >= l.full {
		largest := 0
		for i, m := range b.manifests {
			if m.size > b.manifests[largest].size {
				largest = i
			}
		}
		m := b.manifests[largest]
		b.manifests = slices.Delete(b.manifests, largest, largest+1)
		b.size -= m.size
		out = append(out, m)
	}
	return out
}

// keysOf are the objects of a work, also of one in a cache that keeps no more of its
// manifests than Names does.
func keysOf(spec workv1.ManifestWorkSpec) []key {
	var out []key
	for _, m := range workdigest.Manifests(spec) {
		o := metav1.PartialObjectMetadata{}
		if err := json.Unmarshal(m.Raw, &o); err == nil {
			kind := o.GroupVersionKind()
			out = append(out, key{kind.Group, kind.Kind, o.Namespace, o.Name})
		}
	}
	return out
}

// name is what a cache keeps of a manifest.
type name struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Namespace string `json:"namespace,omitempty"`
		Name      string `json:"name"`
	} `json:"metadata"`
	// Spec says of a workload whether it is to have pods.
	Spec json.RawMessage `json:"spec,omitempty"`
}

// Names are manifests with the kinds and names of those of a spec. A cache keeps them
// in place of the content.
func Names(spec workv1.ManifestWorkSpec) []workv1.Manifest {
	var out []workv1.Manifest
	for _, m := range workdigest.Manifests(spec) {
		var n name
		if json.Unmarshal(m.Raw, &n) != nil {
			continue
		}
		var spec struct {
			Replicas *int64 `json:"replicas"`
		}
		if err := json.Unmarshal(n.Spec, &spec); err == nil && spec.Replicas != nil {
			n.Spec = fmt.Appendf(nil, `{"replicas":%d}`, *spec.Replicas)
		} else {
			n.Spec = nil
		}
		if raw, err := json.Marshal(n); err == nil {
			out = append(out, workv1.Manifest{RawExtension: runtime.RawExtension{Raw: raw}})
		}
	}
	return out
}

// Objects are the objects of works, and at least what Names keeps of them.
func Objects(all []*workv1.ManifestWork) (out []*unstructured.Unstructured) {
	for _, w := range all {
		for _, m := range workdigest.Manifests(w.Spec) {
			o := &unstructured.Unstructured{}
			if o.UnmarshalJSON(m.Raw) == nil {
				out = append(out, o)
			}
		}
	}
	return out
}
