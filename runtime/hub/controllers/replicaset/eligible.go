package replicaset

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/selection"
	"github.com/muster-fleet/terraform-provider-muster/runtime/rollout"
)

// refusal is a cluster of a decision that gets no work, and why.
type refusal struct {
	cluster string
	selection.Standing
}

// restrict removes the clusters that do not count from the groups, and returns
// them. It also returns the clusters that count as selected: these include
// unaccepted ones, which are in no group.
func (c *Controller) restrict(ctx context.Context, from selection.Choice, groups []rollout.Group) (selected sets.Set[string], refused []refusal, err error) {
	selected = sets.Set[string]{}
	for i := range groups {
		var clusters []string
		for _, name := range groups[i].Clusters {
			_, is, err := from.Cluster(ctx, c.client, name)
			if err != nil {
				return nil, nil, err
			}
			if is != selection.Stranger {
				selected.Insert(name)
			}
			if is == selection.Eligible {
				clusters = append(clusters, name)
			} else {
				refused = append(refused, refusal{name, is})
			}
		}
		groups[i].Clusters = clusters
	}
	return selected, refused, nil
}

// toldRefusals is how many clusters of a kind a message names.
const toldRefusals = 5

// explain says which clusters of a placement's decisions get no work; it is
// empty when all do.
func explain(namespace string, refused []refusal) string {
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
				names = append(names, r.cluster)
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
