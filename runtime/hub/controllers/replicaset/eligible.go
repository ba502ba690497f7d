package replicaset

import (
	"fmt"
	"strings"

	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/selection"
)

// toldRefusals is how many clusters of a kind a message names.
const toldRefusals = 5

// explain says which clusters of a placement's decisions get no work; it is
// empty when all do.
func explain(namespace string, refused []selection.Refusal) string {
	var parts []string
	for _, kind := range []struct {
		selection.Standing
		why string
	}{
		{selection.Stranger, "no clusters of a cluster set that is bound to the namespace " + namespace + " and that the placement may choose from"},
		{selection.Unaccepted, "not accepted by the hub"},
	} {
		var names []string
		more := 0
		for _, r := range refused {
			switch {
			case r.Standing != kind.Standing:
			case len(names) < toldRefusals:
				names = append(names, r.Cluster)
			default:
				more++
			}
		}
		if len(names) == 0 {
			continue
		}
		list := strings.Join(names, ", ")
		if more > 0 {
			list += fmt.Sprintf(" and %d more", more)
		}
		parts = append(parts, list+": "+kind.why)
	}
	if len(parts) == 0 {
		return ""
	}
	return "its decisions name clusters that get no work: " + strings.Join(parts, "; ")
}
