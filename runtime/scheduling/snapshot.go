package scheduling

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/membership"
)

// Snapshot is all that the hub has and that placements are decided by, at one
// time. It is safe for concurrent use as long as its fields do not change.
type Snapshot struct {
	Clusters  []clusterv1.ManagedCluster                `json:"clusters"`
	Sets      []clusterv1beta2.ManagedClusterSet        `json:"sets"`
	Bindings  []clusterv1beta2.ManagedClusterSetBinding `json:"bindings"`
	Decisions []clusterv1beta1.PlacementDecision        `json:"decisions"`
	Scores    []clusterv1alpha1.AddOnPlacementScore     `json:"scores"`
	// Now is the time of the snapshot.
	Now time.Time `json:"now"`

	indexScores sync.Once
	scores      map[types.NamespacedName]*clusterv1alpha1.AddOnPlacementScore
}

// Lister fills a list with the objects of one namespace, or of all with "".
type Lister func(ctx context.Context, list runtime.Object, namespace string) error

// Take reads the snapshot from the hub: what a compiled placement depends on or,
// without one, what all placements do.
func (s *Snapshot) Take(ctx context.Context, list Lister, c *Compiled, now time.Time) error {
	var (
		clusters  clusterv1.ManagedClusterList
		sets      clusterv1beta2.ManagedClusterSetList
		bindings  clusterv1beta2.ManagedClusterSetBindingList
		decisions clusterv1beta1.PlacementDecisionList
		scores    clusterv1alpha1.AddOnPlacementScoreList
	)
	namespace, bound := "", "cluster set bindings"
	if c != nil {
		namespace = c.placement.Namespace
		bound += " of the namespace " + namespace
	}
	for _, l := range []struct {
		what, namespace string
		list            runtime.Object
		skip            bool
	}{
		{bound, namespace, &bindings, false},
		{"cluster sets", "", &sets, false},
		{"managed clusters", "", &clusters, false},
		{"placement decisions", "", &decisions, false},
		{"add-ons' placement scores", "", &scores, c != nil && !c.readsScores()},
	} {
		if l.skip {
			continue
		}
		if err := list(ctx, l.list, l.namespace); err != nil {
			return fmt.Errorf("list the %s: %w", l.what, err)
		}
	}
	s.Clusters, s.Sets, s.Bindings, s.Decisions, s.Scores, s.Now = clusters.Items, sets.Items, bindings.Items, decisions.Items, scores.Items, now
	return nil
}

// Input is what the snapshot has for the decision of one placement, which need
// not exist.
func (s *Snapshot) Input(p *clusterv1beta1.Placement) Input {
	in := Input{Placement: p, Now: s.Now, Selected: map[string]bool{}, Elsewhere: map[string]int{}, Score: s.score}
	var bound []string
	for i := range s.Bindings {
		if s.Bindings[i].Namespace == p.Namespace {
			bound = append(bound, s.Bindings[i].Name)
		}
	}
	sets := map[string]*clusterv1beta2.ManagedClusterSet{}
	for i := range s.Sets {
		sets[s.Sets[i].Name] = &s.Sets[i]
	}
	in.Sets.Bound, in.Sets.Eligible = membership.Eligible(bound, func(name string) bool { return sets[name] != nil }, p.Spec.ClusterSets)
	var eligible []*clusterv1beta2.ManagedClusterSet
	for _, name := range in.Sets.Eligible {
		eligible = append(eligible, sets[name])
	}
	all := make([]*clusterv1.ManagedCluster, 0, len(s.Clusters))
	for i := range s.Clusters {
		all = append(all, &s.Clusters[i])
	}
	in.Clusters = membership.Clusters(eligible, all)
	for i := range s.Decisions {
		own := Belongs(&s.Decisions[i], p)
		for _, d := range s.Decisions[i].Status.Decisions {
			if own {
				in.Selected[d.ClusterName] = true
			} else {
				in.Elsewhere[d.ClusterName]++
			}
		}
	}
	return in
}

// score looks up a cluster's AddOnPlacementScore; nil when there is none.
func (s *Snapshot) score(clusterName, resourceName string) *clusterv1alpha1.AddOnPlacementScore {
	s.indexScores.Do(func() {
		s.scores = make(map[types.NamespacedName]*clusterv1alpha1.AddOnPlacementScore, len(s.Scores))
		for i := range s.Scores {
			s.scores[types.NamespacedName{Namespace: s.Scores[i].Namespace, Name: s.Scores[i].Name}] = &s.Scores[i]
		}
	})
	return s.scores[types.NamespacedName{Namespace: clusterName, Name: resourceName}]
}

// readsScores reports whether the decision can depend on AddOnPlacementScores. An
// expression reads them with the function of that name.
func (c *Compiled) readsScores() bool {
	return slices.ContainsFunc(c.prioritizers, func(p Prioritizer) bool { return p.Kind == AddOn }) ||
		slices.ContainsFunc(c.predicates, func(p predicate) bool {
			return slices.ContainsFunc(p.expressions, func(e celExpression) bool { return strings.Contains(e.text, "scores") })
		})
}
