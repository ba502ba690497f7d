package debug

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/membership"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

// gather reads from the hub all that the decision of a compiled placement depends
// on. The placement need not exist there.
func gather(ctx context.Context, r client.Reader, c *scheduling.Compiled, now time.Time) (scheduling.Input, error) {
	p := c.Placement()
	in := scheduling.Input{Placement: p, Now: now, Selected: map[string]bool{}, Elsewhere: map[string]int{}}
	sets, err := eligibleSets(ctx, r, p, &in)
	if err != nil {
		return in, err
	}
	clusters := &clusterv1.ManagedClusterList{}
	if err := r.List(ctx, clusters); err != nil {
		return in, fmt.Errorf("list the managed clusters: %w", err)
	}
	all := make([]*clusterv1.ManagedCluster, 0, len(clusters.Items))
	for i := range clusters.Items {
		all = append(all, &clusters.Items[i])
	}
	in.Clusters = membership.Clusters(sets, all)

	decisions := &clusterv1beta1.PlacementDecisionList{}
	if err := r.List(ctx, decisions); err != nil {
		return in, fmt.Errorf("list the placement decisions: %w", err)
	}
	for i := range decisions.Items {
		own := scheduling.Belongs(&decisions.Items[i], p)
		for _, d := range decisions.Items[i].Status.Decisions {
			if own {
				in.Selected[d.ClusterName] = true
			} else {
				in.Elsewhere[d.ClusterName]++
			}
		}
	}
	if d := c.Depends(); len(d.Scores) > 0 || d.ObjectScores {
		if in.Score, err = scores(ctx, r); err != nil {
			return in, err
		}
	}
	return in, nil
}

// eligibleSets notes which sets are bound and eligible, and returns the latter.
func eligibleSets(ctx context.Context, r client.Reader, p *clusterv1beta1.Placement, in *scheduling.Input) ([]*clusterv1beta2.ManagedClusterSet, error) {
	bindings := &clusterv1beta2.ManagedClusterSetBindingList{}
	if err := r.List(ctx, bindings, client.InNamespace(p.Namespace)); err != nil {
		return nil, fmt.Errorf("list the cluster set bindings of the namespace %s: %w", p.Namespace, err)
	}
	sets := &clusterv1beta2.ManagedClusterSetList{}
	if err := r.List(ctx, sets); err != nil {
		return nil, fmt.Errorf("list the cluster sets: %w", err)
	}
	byName := map[string]*clusterv1beta2.ManagedClusterSet{}
	for i := range sets.Items {
		byName[sets.Items[i].Name] = &sets.Items[i]
	}
	var bound []string
	for _, b := range bindings.Items {
		bound = append(bound, b.Name)
	}
	in.Sets.Bound, in.Sets.Eligible = membership.Eligible(bound, func(s string) bool { return byName[s] != nil }, p.Spec.ClusterSets)
	var out []*clusterv1beta2.ManagedClusterSet
	for _, name := range in.Sets.Eligible {
		out = append(out, byName[name])
	}
	return out, nil
}

// scores looks up the AddOnPlacementScores as they are now.
func scores(ctx context.Context, r client.Reader) (scheduling.ScoreGetter, error) {
	list := &clusterv1alpha1.AddOnPlacementScoreList{}
	if err := r.List(ctx, list); err != nil {
		return nil, fmt.Errorf("list the add-ons' placement scores: %w", err)
	}
	byKey := make(map[types.NamespacedName]*clusterv1alpha1.AddOnPlacementScore, len(list.Items))
	for i := range list.Items {
		byKey[client.ObjectKeyFromObject(&list.Items[i])] = &list.Items[i]
	}
	return func(clusterName, resourceName string) *clusterv1alpha1.AddOnPlacementScore {
		return byKey[types.NamespacedName{Namespace: clusterName, Name: resourceName}]
	}, nil
}
