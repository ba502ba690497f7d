package replicaset

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/membership"
	"github.com/muster-fleet/terraform-provider-muster/runtime/rollout"
)

// Not only the scheduler may have the right to write decisions. A name in one of
// them is a cluster's namespace, where a work is applied with the rights of the
// agent. So a name counts only if the placement could have chosen it.

// standing is what a cluster that a decision names is to the placement.
type standing int

const (
	// stranger is no cluster, or none of a set that the placement may choose
	// from. It counts as not selected.
	stranger standing = iota
	// unaccepted is a cluster of such a set that the hub has not accepted. It
	// keeps the work that it has, and gets nothing.
	unaccepted
	// eligible clusters get works.
	eligible
)

// choice is what a placement may choose from: the clusters whose labels one of
// the selectors matches.
type choice []labels.Selector

// standing judges a cluster; nil is one that does not exist.
func (c choice) standing(mc *clusterv1.ManagedCluster) standing {
	switch {
	case mc == nil || !mc.DeletionTimestamp.IsZero() || cluster.IsReserved(mc.Name):
		return stranger
	case !slices.ContainsFunc(c, func(s labels.Selector) bool { return s.Matches(labels.Set(mc.Labels)) }):
		return stranger
	case !mc.Spec.AcceptsClient():
		return unaccepted
	}
	return eligible
}

// refusal is a cluster of a decision that gets no work, and why.
type refusal struct {
	cluster string
	standing
}

// choice reads which sets are bound to a placement's namespace and named by it.
// The name of a binding counts, as it does for the scheduler.
func (c *Controller) choice(ctx context.Context, p *clusterv1beta1.Placement) (choice, error) {
	bindings := &clusterv1beta2.ManagedClusterSetBindingList{}
	if err := c.client.List(ctx, bindings, client.InNamespace(p.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the cluster set bindings of the namespace %s: %w", p.Namespace, err)
	}
	byName := map[string]*clusterv1beta2.ManagedClusterSet{}
	var bound []string
	for i := range bindings.Items {
		name := bindings.Items[i].Name
		set := &clusterv1beta2.ManagedClusterSet{}
		err := c.client.Get(ctx, types.NamespacedName{Name: name}, set, client.UnsafeDisableDeepCopy)
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return nil, fmt.Errorf("read the cluster set %s: %w", name, err)
		}
		byName[name] = set
		bound = append(bound, name)
	}
	_, named := membership.Eligible(bound, func(string) bool { return true }, p.Spec.ClusterSets)
	var out choice
	for _, name := range named {
		if selector, err := membership.Selector(byName[name]); err == nil { // the set's own status reports a bad one
			out = append(out, selector)
		}
	}
	return out, nil
}

// restrict removes the clusters that do not count from the groups, and returns
// them. It also returns the clusters that count as selected: these include
// unaccepted ones, which are in no group.
func (c *Controller) restrict(ctx context.Context, from choice, groups []rollout.Group) (selected sets.Set[string], refused []refusal, err error) {
	selected = sets.Set[string]{}
	for i := range groups {
		var clusters []string
		for _, name := range groups[i].Clusters {
			mc := &clusterv1.ManagedCluster{}
			err := c.client.Get(ctx, types.NamespacedName{Name: name}, mc, client.UnsafeDisableDeepCopy)
			if apierrors.IsNotFound(err) || name == "" {
				mc = nil
			} else if err != nil {
				return nil, nil, fmt.Errorf("read the cluster %s: %w", name, err)
			}
			is := from.standing(mc)
			if is != stranger {
				selected.Insert(name)
			}
			if is == eligible {
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
		standing
		why string
	}{
		{stranger, "no clusters of a cluster set that is bound to the namespace " + namespace + " and that the placement may choose from"},
		{unaccepted, "not accepted by the hub"},
	} {
		var names []string
		more := 0
		for _, r := range refused {
			switch {
			case r.standing != kind.standing:
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
