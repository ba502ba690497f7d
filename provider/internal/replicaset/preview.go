package replicaset

import (
	"context"
	"fmt"

	"github.com/muster-fleet/terraform-provider-muster/internal/preview"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/override"
)

// questions are what to ask about the works of a replica set: in all clusters that its
// placements select at present, and in those whose works would go.
func questions(ctx context.Context, p crud.Previewing[replicaSet]) ([]preview.Question, error) {
	set := p.Object
	works := &workv1.ManifestWorkList{}
	label := kube.ListOptions{LabelSelector: work.ReplicaSetLabel + "=" + replicaSetLabel(set.Namespace, set.Name)}
	if err := p.Client.List(ctx, works, label); err != nil {
		return nil, fmt.Errorf("the works of the replica set can't be listed: %w", err)
	}
	var decided []preview.Decided
	for _, ref := range set.Spec.PlacementRefs {
		if p.Deletes {
			break
		}
		clusters, err := chosen(ctx, p.Client, set.Namespace, ref.Name)
		if err != nil {
			return nil, err
		}
		decided = append(decided, preview.Decided{Placement: ref.Name, Clusters: clusters})
	}
	var own *override.Template
	if !p.Deletes {
		var err error
		if own, err = templateOf(ctx, p.Client, set); err != nil {
			return nil, fmt.Errorf("the override of the replica set: %w", err)
		}
	}
	all := preview.OfReplicaSet(set, own, decided, works.Items)
	if len(all) == 0 && !p.Deletes {
		return nil, fmt.Errorf("the placements of the replica set select no clusters yet, so there is nobody to ask")
	}
	return all, nil
}

// chosen are the clusters that a placement has selected.
func chosen(ctx context.Context, client *kube.Client, namespace, placement string) ([]string, error) {
	decisions := &clusterv1beta1.PlacementDecisionList{}
	of := kube.ListOptions{Namespace: namespace, LabelSelector: cluster.PlacementLabel + "=" + placement}
	if err := client.List(ctx, decisions, of); err != nil {
		return nil, fmt.Errorf("the decisions of the placement %s/%s can't be listed: %w", namespace, placement, err)
	}
	return preview.Selected(decisions.Items), nil
}
