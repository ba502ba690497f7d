package scheduling

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

// SliceSize is the greatest number of clusters in one PlacementDecision.
const SliceSize = 100

// groupSelector is a decision group that the placement names.
type groupSelector struct {
	clusterSelector
	name string
}

// compileGroups reads the groups, and finds the mistakes in them and in their
// size.
func compileGroups(strategy clusterv1beta1.GroupStrategy) ([]groupSelector, *Problem) {
	if _, err := groupSize(strategy.ClustersPerDecisionGroup, 0); err != nil {
		return nil, &Problem{Message: err.Error()}
	}
	var out []groupSelector
	for _, g := range strategy.DecisionGroups {
		s, err := compileSelector(g.GroupClusterSelector.LabelSelector, g.GroupClusterSelector.ClaimSelector)
		if err != nil {
			return nil, &Problem{Message: err.Error()}
		}
		out = append(out, groupSelector{s, g.GroupName})
	}
	return out, nil
}

// divide puts the chosen clusters, sorted by rank, into decision groups.
// Without any cluster there is one empty group.
func (c *Compiled) divide(chosen []Ranked) []Group {
	// Compile has checked it.
	size, _ := groupSize(c.placement.Spec.DecisionStrategy.GroupStrategy.ClustersPerDecisionGroup, len(chosen))
	rest := slices.Clone(chosen)
	if c.placement.Spec.SortBy == clusterv1beta1.PlacementSortByScore {
		slices.SortFunc(rest, Compare)
	} else {
		slices.SortFunc(rest, func(a, b Ranked) int { return cmp.Compare(a.Name, b.Name) })
	}
	var groups []Group
	for _, g := range c.groups {
		var taken, left []Ranked
		for _, x := range rest {
			if g.matches(x.View) {
				taken = append(taken, x)
			} else {
				left = append(left, x)
			}
		}
		rest = left
		groups = append(groups, pieces(g.name, names(taken), size)...)
	}
	groups = append(groups, pieces("", names(rest), size)...)
	if len(groups) == 0 {
		groups = []Group{{}}
	}
	return groups
}

func pieces(name string, clusters []string, size int) []Group {
	var out []Group
	for piece := range slices.Chunk(clusters, max(1, size)) {
		out = append(out, Group{Name: name, Clusters: piece})
	}
	return out
}

// groupSize is how many clusters a group holds: a number, or a percentage of
// the chosen clusters, rounded up. An invalid value counts as all.
func groupSize(v intstr.IntOrString, total int) (int, error) {
	size := int(v.IntVal)
	if v.Type == intstr.String && v.StrVal != "" {
		digits, ok := strings.CutSuffix(v.StrVal, "%")
		percent, err := strconv.Atoi(digits)
		if !ok || err != nil {
			return 0, fmt.Errorf("%v invalid type: string is not a percentage", v.StrVal)
		}
		// Computed in integers, because a share such as 28% of 25 is a little
		// more than 7 as a binary fraction.
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

// Decision is the desired state of one PlacementDecision.
type Decision struct {
	Name     string
	Labels   map[string]string
	Clusters []string
}

// Decisions splits the groups into PlacementDecisions. Their numbers continue
// across groups and start at 1; the index of groups starts at 0.
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

// Belongs reports whether a decision belongs to a placement: by its label, its
// owner or its name. Any of them is enough, because a user may have edited the
// others. A decision that is not recognised could never be re-created, because
// its name is taken. A placement without a name has none.
func Belongs(d *clusterv1beta1.PlacementDecision, p *clusterv1beta1.Placement) bool {
	if d.Namespace != p.Namespace || p.Name == "" {
		return false
	}
	// A placement that does not exist has no UID, and owns nothing.
	if d.Labels[cluster.PlacementLabel] == p.Name || p.UID != "" && metav1.IsControlledBy(d, p) {
		return true
	}
	number, ok := strings.CutPrefix(d.Name, p.Name+"-decision-")
	_, err := strconv.ParseUint(number, 10, 32)
	return ok && err == nil
}
