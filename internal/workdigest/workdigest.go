// Package workdigest identifies the content of a ManifestWork's spec, and stands for
// the spec where the content itself is not needed: a cache of the works of a fleet
// would have the manifests of one template many times over.
package workdigest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-fleet/terraform-provider-muster/internal/creationtimestamp"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// prefix begins digests. No manifest on the wire does, as they are objects.
const prefix = "sha256:"

// Of identifies the content of a spec: equal digests mean that the specs say the
// same. Of a lean spec it is the digest of the whole one.
func Of(spec workv1.ManifestWorkSpec) string {
	manifests := spec.Workload.Manifests
	if len(manifests) > 0 && is(manifests[0]) {
		return string(manifests[0].Raw)
	}
	spec.Workload.Manifests = nil
	rest, err := json.Marshal(spec)
	if err != nil {
		rest = []byte(err.Error()) // these fields can all be marshalled
	}
	asIs := sumOf(rest, manifests, func(raw []byte) []byte { return raw })
	return digests.get(asIs, func() string {
		sum := sumOf(rest, manifests, canonical)
		return prefix + hex.EncodeToString(sum[:])
	})
}

func sumOf(rest []byte, manifests []workv1.Manifest, form func([]byte) []byte) [sha256.Size]byte {
	h := sha256.New()
	add := func(part []byte) {
		_, _ = fmt.Fprintf(h, "%d ", len(part))
		h.Write(part)
	}
	add(rest)
	for _, m := range manifests {
		add(form(m.Raw))
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// digestsKept is how many digests are remembered.
const digestsKept = 8 << 10

// digests are those of the specs that were seen, by a hash of the specs as they are. A fleet
// has each spec many times, and its canonical form costs several times as much as its hash.
var digests remembered

type remembered struct {
	mu    sync.Mutex
	known map[[sha256.Size]byte]string
}

func (r *remembered) get(key [sha256.Size]byte, digest func() string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	d, ok := r.known[key]
	if !ok {
		if r.known == nil || len(r.known) >= digestsKept {
			r.known = map[[sha256.Size]byte]string{}
		}
		d = digest()
		r.known[key] = d
	}
	return d
}

// Lean is a spec that has its digest in place of its content. more are manifests to
// keep behind the digest.
func Lean(spec workv1.ManifestWorkSpec, more ...workv1.Manifest) workv1.ManifestWorkSpec {
	digest := workv1.Manifest{RawExtension: runtime.RawExtension{Raw: []byte(Of(spec))}}
	return workv1.ManifestWorkSpec{Workload: workv1.ManifestsTemplate{Manifests: append([]workv1.Manifest{digest}, more...)}}
}

// Manifests are those of a spec, and of a lean one those that were kept.
func Manifests(spec workv1.ManifestWorkSpec) []workv1.Manifest {
	if all := spec.Workload.Manifests; len(all) > 0 && is(all[0]) {
		return all[1:]
	}
	return spec.Workload.Manifests
}

// is reports whether a manifest is a digest.
func is(m workv1.Manifest) bool { return bytes.HasPrefix(m.Raw, []byte(prefix)) }

// canonical writes a manifest in the one way that does not depend on the order
// of keys and on spaces, and without the empty creationTimestamps that Go's
// types leave in manifests.
func canonical(raw []byte) []byte {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		return raw
	}
	creationtimestamp.RemoveNull(v)
	out, err := json.Marshal(v)
	if err != nil {
		return raw
	}
	return out
}
