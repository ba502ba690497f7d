package leanwork

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/muster-fleet/terraform-provider-muster/internal/creationtimestamp"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// digestPrefix begins digests. No manifest on the wire does, as they are objects.
const digestPrefix = "sha256:"

// Digest identifies the content of a spec: equal digests mean that the specs
// say the same. Of a spec in the controller's cache it is all that is left.
func Digest(spec workv1.ManifestWorkSpec) string {
	manifests := spec.Workload.Manifests
	if len(manifests) == 1 && bytes.HasPrefix(manifests[0].Raw, []byte(digestPrefix)) {
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
	return digestPrefix + hex.EncodeToString(sum[:])
}

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
