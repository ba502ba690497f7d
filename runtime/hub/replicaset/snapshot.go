package replicaset

import (
	"context"
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/rollout"
)

// snapshot is all that a pass goes by.
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
	// problem is why its decisions can't be gone by.
	problem error
	groups  []rollout.Group
	// decisionGroups and selected are what the placement says of itself.
	decisionGroups, selected int
}

// clusters are the names of the selected clusters.
func (p placement) clusters() map[string]bool {
	out := map[string]bool{}
	for _, g := range p.groups {
		for _, c := range g.Clusters {
			out[c] = true
		}
	}
	return out
}

func (c *Controller) snapshot(ctx context.Context, set *workv1alpha1.ManifestWorkReplicaSet) (snapshot, error) {
	s := snapshot{set: set}
	named := map[string]bool{}
	for _, ref := range set.Spec.PlacementRefs {
		if named[ref.Name] {
			continue // a second strategy would contradict the first
		}
		named[ref.Name] = true
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
	decisions := &clusterv1beta1.PlacementDecisionList{}
	if err := c.client.List(ctx, decisions, client.InNamespace(namespace), client.MatchingLabels{cluster.PlacementLabel: ref.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return p, fmt.Errorf("list the decisions of the placement %s/%s: %w", namespace, ref.Name, err)
	}
	p.groups, p.problem = groupsOf(decisions.Items)
	return p, nil
}

// groupsOf sorts decisions by their groups.
func groupsOf(decisions []clusterv1beta1.PlacementDecision) ([]rollout.Group, error) {
	var groups []rollout.Group
	for i := range decisions {
		d := &decisions[i]
		index, err := strconv.ParseInt(d.Labels[cluster.DecisionGroupIndexLabel], 10, 32)
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
