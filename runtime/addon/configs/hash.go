package configs

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
)

// Hash identifies the content of a configuration object: all of its top-level
// fields but apiVersion, kind, metadata and status, as JSON with sorted keys. The
// object has to be the one of the wire. One that has been through Go's types is
// another: these drop or add empty fields.
func Hash(object map[string]any) (string, error) {
	content := maps.Clone(object)
	for _, field := range []string{"apiVersion", "kind", "metadata", "status"} {
		delete(content, field)
	}
	data, err := json.Marshal(content)
	if err != nil {
		return "", fmt.Errorf("hash a configuration: %w", err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}

// SpecHashes are the hashes of configurations as works name them in an annotation:
// RESOURCE.GROUP/NAMESPACE/NAME, or RESOURCE/NAMESPACE/NAME for the core group.
func SpecHashes(references []v1alpha1.ConfigReference) map[string]string {
	out := map[string]string{}
	for _, r := range references {
		if d := r.DesiredConfig; d != nil {
			kind := schema.GroupResource{Group: r.Group, Resource: r.Resource}
			out[fmt.Sprintf("%s/%s/%s", kind, d.Namespace, d.Name)] = d.SpecHash
		}
	}
	return out
}

// SpecHashAnnotation is the annotation of a work that is made with configurations;
// without any there is none.
func SpecHashAnnotation(references []v1alpha1.ConfigReference) (value string, ok bool) {
	hashes := SpecHashes(references)
	if len(hashes) == 0 {
		return "", false
	}
	data, err := json.Marshal(hashes)
	return string(data), err == nil // maps of strings can be marshalled
}

// Matches reports whether a work with an annotation, or without one, is made with
// the desired configurations. A hash that is not known, on either side, matches
// nothing.
func Matches(annotation string, present bool, references []v1alpha1.ConfigReference) bool {
	if !present {
		return len(references) == 0
	}
	var have map[string]string
	if err := json.Unmarshal([]byte(annotation), &have); err != nil {
		return false
	}
	for _, hash := range have {
		if hash == "" {
			return false
		}
	}
	for _, r := range references {
		if r.DesiredConfig == nil || r.DesiredConfig.SpecHash == "" {
			return false
		}
	}
	return maps.Equal(have, SpecHashes(references))
}
