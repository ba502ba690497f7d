package applier

import (
	"crypto/sha256"
	"encoding/json"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/manifest"
)

// bodyOf identifies all of an object but its metadata and status.
func bodyOf(o *unstructured.Unstructured) manifest.Hash {
	body := make(map[string]any, len(o.Object))
	for k, v := range o.Object {
		if k != "metadata" && k != "status" {
			body[k] = v
		}
	}
	data, err := json.Marshal(body)
	if err != nil { // of what was read as JSON, which always can be
		return manifest.Hash{}
	}
	return sha256.Sum256(data)
}

// bodyEquals reports whether all but metadata and status is as required, and
// there is nothing else.
func bodyEquals(live, required *unstructured.Unstructured) bool {
	for k, v := range required.Object {
		if k != "metadata" && k != "status" && !apiequality.Semantic.DeepEqual(v, live.Object[k]) {
			return false
		}
	}
	for k := range live.Object {
		if _, ok := required.Object[k]; !ok && k != "metadata" && k != "status" && !isFilledIn(required, k) {
			return false
		}
	}
	return true
}

// isFilledIn reports whether it is the cluster that sets a field of an object
// whose manifest does not: the rules of an aggregated role, without which it
// would grant nothing for a moment, and the type of a secret.
func isFilledIn(required *unstructured.Unstructured, field string) bool {
	return field == "rules" && manifest.IsAggregated(required) || field == "type" && manifest.IsCore(required, "Secret")
}

// bodyHolds reports whether all but metadata and status holds what is required.
func bodyHolds(live, required *unstructured.Unstructured) bool {
	for k, v := range required.Object {
		if k != "metadata" && k != "status" && !contains(live.Object[k], v) {
			return false
		}
	}
	return true
}

// contains reports whether have holds all that want does. Lists count as a
// whole, item by item: an item may have more fields, the list not more items.
func contains(have, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		h, ok := have.(map[string]any)
		if !ok {
			return len(want) == 0 && have == nil
		}
		for k, v := range want {
			if !contains(h[k], v) {
				return false
			}
		}
		return true
	case []any:
		h, ok := have.([]any)
		if !ok {
			return len(want) == 0 && have == nil
		}
		if len(h) != len(want) {
			return false
		}
		for i := range want {
			if !contains(h[i], want[i]) {
				return false
			}
		}
		return true
	}
	return apiequality.Semantic.DeepEqual(have, want)
}
