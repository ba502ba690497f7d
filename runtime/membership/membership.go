// Package membership decides which clusters belong to which cluster sets. It
// consists of pure functions over the API's types. It must not import a client,
// the hub, the agent or the provider.
package membership

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
)

// Selector selects the labels of a set's members.
func Selector(set *clusterv1beta2.ManagedClusterSet) (labels.Selector, error) {
	switch s := set.Spec.ClusterSelector; s.SelectorType {
	case "", clusterv1beta2.ExclusiveClusterSetLabel:
		return labels.SelectorFromSet(labels.Set{cluster.ClusterSetLabel: set.Name}), nil
	case clusterv1beta2.LabelSelector:
		selector, err := metav1.LabelSelectorAsSelector(s.LabelSelector)
		if err != nil {
			return nil, fmt.Errorf("the cluster set %s: spec.clusterSelector.labelSelector: %w", set.Name, err)
		}
		return selector, nil
	default:
		return nil, fmt.Errorf("the cluster set %s: spec.clusterSelector.selectorType %q is neither %s nor %s", set.Name, s.SelectorType, clusterv1beta2.ExclusiveClusterSetLabel, clusterv1beta2.LabelSelector)
	}
}

// Eligible returns, sorted, the names of the sets that a placement may choose
// from: the existing sets that are bound to its namespace, limited to those
// that the placement names, if it names any.
func Eligible(bound []string, exists func(set string) bool, named []string) (valid, eligible []string) {
	for _, name := range bound {
		if exists(name) && !slices.Contains(valid, name) {
			valid = append(valid, name)
		}
	}
	slices.Sort(valid)
	if len(named) == 0 {
		return valid, valid
	}
	for _, name := range valid {
		if slices.Contains(named, name) {
			eligible = append(eligible, name)
		}
	}
	return valid, eligible
}

// Clusters returns the clusters that are members of any of the sets and are not
// being deleted, in the order of the input. A set with an invalid selector has
// no members.
func Clusters(sets []*clusterv1beta2.ManagedClusterSet, clusters []*clusterv1.ManagedCluster) []*clusterv1.ManagedCluster {
	var selectors []labels.Selector
	for _, s := range sets {
		if selector, err := Selector(s); err == nil {
			selectors = append(selectors, selector)
		}
	}
	var out []*clusterv1.ManagedCluster
	for _, c := range clusters {
		if c.DeletionTimestamp.IsZero() && slices.ContainsFunc(selectors, func(s labels.Selector) bool { return s.Matches(labels.Set(c.Labels)) }) {
			out = append(out, c)
		}
	}
	return out
}
