package managedcluster

import (
	"context"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/crud"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// foreignField tells which fields of a ManagedCluster are no attributes of the
// resource: its acceptance is a resource of its own, taints are merged with those of
// the hub, an import leaves addresses to those who set them, and the hub and the
// agent have labels and annotations of their own.
func foreignField(path string) bool {
	switch path {
	case "spec.hubAcceptsClient", "spec.taints", "spec.managedClusterClientConfigs":
		return true
	}
	if key, ok := strings.CutPrefix(path, "metadata.labels."); ok {
		return key != cluster.ClusterSetLabel && reservedClusterLabel(key) != ""
	}
	key, ok := strings.CutPrefix(path, "metadata.annotations.")
	return ok && strings.Contains(key, "open-cluster-management.io")
}

var _ resource.ResourceWithMoveState = (*managedClusterResource)(nil)

// MoveState implements resource.ResourceWithMoveState.
func (r *managedClusterResource) MoveState(context.Context) []resource.StateMover {
	return crud.MovedFrom(func(object *clusterv1.ManagedCluster) (crud.Model, error) {
		m := importManagedCluster(object)
		return &m, nil
	})
}
