package main

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

// replicaSetStatus is a replica set whose placements have a problem: one is missing,
// or its decisions name clusters that get no work.
type replicaSetStatus struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Problem   string `json:"problem"`
}

// readReplicaSets reads the replica sets whose placements have a problem.
func (s *fleetStatus) readReplicaSets(ctx context.Context, c client.Client) error {
	list := &workv1alpha1.ManifestWorkReplicaSetList{}
	err := c.List(ctx, list)
	switch {
	case apierrors.IsForbidden(err):
		s.Hidden = append(s.Hidden, "the replica sets, which you may not list")
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err): // a hub without them
	case err != nil:
		return fmt.Errorf("list the replica sets: %w", err)
	}
	for i := range list.Items {
		set := &list.Items[i]
		if c := meta.FindStatusCondition(set.Status.Conditions, work.ConditionPlacementVerified); c != nil && c.Message != "" {
			s.ReplicaSets = append(s.ReplicaSets, replicaSetStatus{set.Namespace, set.Name, c.Message})
		}
	}
	return nil
}

func (s *fleetStatus) printReplicaSets(t tables) {
	if len(s.ReplicaSets) == 0 {
		return
	}
	t.row()
	t.row("REPLICA SET", "ITS PLACEMENTS")
	for _, r := range s.ReplicaSets {
		t.row(r.Namespace+"/"+r.Name, r.Problem)
	}
}
