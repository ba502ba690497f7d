package scheduling

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

// SliceSize is how many clusters one PlacementDecision holds at most.
const SliceSize = 100

// group divides the chosen clusters into decision groups. With no cluster at
// all there is one empty group.
func group(strategy clusterv1beta1.GroupStrategy, selected []*clusterv1.ManagedCluster) ([]Group, outcome) {
	size, err := groupSize(strategy.ClustersPerDecisionGroup, len(selected))
	if err != nil {
		return nil, outcome{code: misconfigured, message: err.Error()}
	}
	rest := slices.Clone(selected)
	slices.SortFunc(rest, func(a, b *clusterv1.ManagedCluster) int { return cmp.Compare(a.Name, b.Name) })
	var groups []Group
	for _, g := range strategy.DecisionGroups {
		m, err := newMatcher(g.GroupClusterSelector.LabelSelector, g.GroupClusterSelector.ClaimSelector)
		if err != nil {
			return nil, outcome{code: misconfigured, message: err.Error()}
		}
		var taken, left []*clusterv1.ManagedCluster
		for _, c := range rest {
			if m.matches(c) {
				taken = append(taken, c)
			} else {
				left = append(left, c)
			}
		}
		rest = left
		groups = append(groups, pieces(g.GroupName, names(taken), size)...)
	}
	groups = append(groups, pieces("", names(rest), size)...)
	if len(groups) == 0 {
		groups = []Group{{}}
	}
	return groups, outcome{}
}

func pieces(name string, clusters []string, size int) []Group {
	var out []Group
	for piece := range slices.Chunk(clusters, max(1, size)) {
		out = append(out, Group{Name: name, Clusters: piece})
	}
	return out
}

// groupSize is how many clusters a group holds: a number, or a share of those
// that are chosen, rounded up. What makes no sense counts as all.
func groupSize(v intstr.IntOrString, total int) (int, error) {
	size := int(v.IntVal)
	if v.Type == intstr.String && v.StrVal != "" {
		digits, ok := strings.CutSuffix(v.StrVal, "%")
		percent, err := strconv.Atoi(digits)
		if !ok || err != nil {
			return 0, fmt.Errorf("%v invalid type: string is not a percentage", v.StrVal)
		}
		// In whole numbers, since a share such as 28% of 25 is a little more than 7
		// in binary fractions.
		size = percent * total / 100
		if percent*total%100 > 0 {
			size++
		}
	}
	if size <= 0 || size > total {
		return total, nil
	}
	return size, nil
}

// Decision is one PlacementDecision as it should be.
type Decision struct {
	Name     string
	Labels   map[string]string
	Clusters []string
}

// Decisions cuts the groups into PlacementDecisions. Their numbers run on
// across groups from 1; the index of groups begins at 0.
func Decisions(placement string, groups []Group) []Decision {
	var out []Decision
	for index, g := range groups {
		slicesOf := slices.Collect(slices.Chunk(g.Clusters, SliceSize))
		if len(slicesOf) == 0 {
			slicesOf = [][]string{nil}
		}
		for _, clusters := range slicesOf {
			out = append(out, Decision{
				Name: fmt.Sprintf("%s-decision-%d", placement, len(out)+1),
				Labels: map[string]string{
					cluster.PlacementLabel:          placement,
					cluster.DecisionGroupNameLabel:  g.Name,
					cluster.DecisionGroupIndexLabel: strconv.Itoa(index),
				},
				Clusters: clusters,
			})
		}
	}
	return out
}
