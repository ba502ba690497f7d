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
	var all []byte
	add := func(part []byte) { all = append(fmt.Appendf(all, "%d ", len(part)), part...) }
	spec.Workload.Manifests = nil
	rest, err := json.Marshal(spec)
	if err != nil {
		rest = []byte(err.Error()) // these fields can all be marshalled
	}
	add(rest)
	for _, m := range manifests {
		add(canonical(m.Raw))
	}
	sum := sha256.Sum256(all)
	return prefix + hex.EncodeToString(sum[:])
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
