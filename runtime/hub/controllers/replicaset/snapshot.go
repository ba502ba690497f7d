package replicaset

import (
	"context"
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/selection"
	"github.com/muster-fleet/terraform-provider-muster/runtime/rollout"
)

// snapshot is all that a pass decides from.
type snapshot struct {
	set        *workv1alpha1.ManifestWorkReplicaSet
	placements []placement
	// works are all that have the set's label. Nobody may change them.
	works []*workv1.ManifestWork
}

// placement is what a placement that the set names has selected.
type placement struct {
	name     string
	strategy clusterv1alpha1.RolloutStrategy
	// missing says that there is no such placement.
	missing bool
	// problem is why its decisions can't be used.
	problem error
	// groups are the clusters that get works.
	groups []rollout.Group
	// clusters are the selected ones: those of the groups, and those that are to
	// keep what they have.
	clusters sets.Set[string]
	// refused are the clusters of the decisions that get no work.
	refused []refusal
	// decisionGroups and selected are what the placement says of itself. Of one
	// that another scheduler decides for, they are what its decisions say: nobody
	// keeps its status.
	decisionGroups, selected int
	// settled says that decisions and status agree.
	settled bool
}

// refused are the clusters of the decisions that get no work.
func (s snapshot) refused() (names []string) {
	for _, p := range s.placements {
		for _, r := range p.refused {
			names = append(names, r.cluster)
		}
	}
	return names
}

func (c *Controller) snapshot(ctx context.Context, set *workv1alpha1.ManifestWorkReplicaSet) (snapshot, error) {
	s := snapshot{set: set}
	named := sets.Set[string]{}
	for _, ref := range set.Spec.PlacementRefs {
		if named.Has(ref.Name) {
			continue // a second strategy would contradict the first
		}
		named.Insert(ref.Name)
		p, err := c.placement(ctx, set.Namespace, ref)
		if err != nil {
			return s, err
		}
		s.placements = append(s.placements, p)
	}
	var err error
	s.works, err = c.cached(ctx, set)
	return s, err
}

func (c *Controller) placement(ctx context.Context, namespace string, ref workv1alpha1.LocalPlacementReference) (placement, error) {
	p := placement{name: ref.Name, strategy: ref.RolloutStrategy}
	object := &clusterv1beta1.Placement{}
	err := c.client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: ref.Name}, object)
	if apierrors.IsNotFound(err) {
		p.missing = true
		return p, nil
	}
	if err != nil {
		return p, fmt.Errorf("read the placement %s/%s: %w", namespace, ref.Name, err)
	}
	p.decisionGroups, p.selected = len(object.Status.DecisionGroups), int(object.Status.NumberOfSelectedClusters)
	if problems := validation.IsValidLabelValue(ref.Name); len(problems) > 0 {
		p.problem = fmt.Errorf("the name of the placement %s can't be a label of works: %s; give it a shorter name", ref.Name, problems[0])
		return p, nil
	}
	ofPlacement := client.MatchingLabels{cluster.PlacementLabel: ref.Name}
	decisions := &clusterv1beta1.PlacementDecisionList{}
	if err := c.client.List(ctx, decisions, client.InNamespace(namespace), ofPlacement, client.UnsafeDisableDeepCopy); err != nil {
		return p, fmt.Errorf("list the decisions of the placement %s/%s: %w", namespace, ref.Name, err)
	}
	external := object.Annotations[cluster.SchedulingDisabledAnnotation] == "true"
	p.groups, p.problem = groupsOf(decisions.Items, external)
	named := clustersIn(p.groups)
	from, err := selection.ChoiceOf(ctx, c.client, object)
	if err != nil {
		return p, err
	}
	if p.clusters, p.refused, err = c.restrict(ctx, from, p.groups); err != nil {
		return p, err
	}
	p.settled = named == p.selected
	if external {
		p.settled, p.selected, p.decisionGroups = true, len(p.clusters), len(groupIndexes(p.groups))
	}
	return p, nil
}

// clustersIn counts the clusters of groups.
func clustersIn(groups []rollout.Group) int {
	names := sets.Set[string]{}
	for _, g := range groups {
		names.Insert(g.Clusters...)
	}
	return len(names)
}

func groupIndexes(groups []rollout.Group) sets.Set[int32] {
	out := sets.Set[int32]{}
	for _, g := range groups {
		out.Insert(g.Index)
	}
	return out
}

// groupsOf sorts decisions by their groups. Those of another scheduler may name
// no group, and are in the first one then.
func groupsOf(decisions []clusterv1beta1.PlacementDecision, external bool) ([]rollout.Group, error) {
	var groups []rollout.Group
	for i := range decisions {
		d := &decisions[i]
		label, labelled := d.Labels[cluster.DecisionGroupIndexLabel]
		if external && !labelled {
			label = "0"
		}
		index, err := strconv.ParseInt(label, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("the label %s of the PlacementDecision %s/%s is %q, which is no number: leave it to the placement to write its decisions",
				cluster.DecisionGroupIndexLabel, d.Namespace, d.Name, d.Labels[cluster.DecisionGroupIndexLabel])
		}
		g := rollout.Group{Index: int32(index), Name: d.Labels[cluster.DecisionGroupNameLabel]}
		for _, x := range d.Status.Decisions {
			g.Clusters = append(g.Clusters, x.ClusterName)
		}
		groups = append(groups, g)
	}
	return groups, nil
}
