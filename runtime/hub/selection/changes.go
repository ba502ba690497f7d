package selection

import (
	"maps"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

// ScheduledElsewhere reports whether another scheduler decides for a placement.
func ScheduledElsewhere(placement client.Object) bool {
	return placement.GetAnnotations()[cluster.SchedulingDisabledAnnotation] == "true"
}

// PlacementChanged selects changes of what a placement says of its selection. Which
// clusters it selected is in its decisions.
func PlacementChanged(was, is *clusterv1beta1.Placement) bool {
	return was.Status.NumberOfSelectedClusters != is.Status.NumberOfSelectedClusters ||
		len(was.Status.DecisionGroups) != len(is.Status.DecisionGroups) ||
		was.Generation != is.Generation || ScheduledElsewhere(was) != ScheduledElsewhere(is)
}

// StandingChanged selects changes of what decides whether a cluster may be chosen.
func StandingChanged(was, is *clusterv1.ManagedCluster) bool {
	return !maps.Equal(was.Labels, is.Labels) || was.Spec.AcceptsClient() != is.Spec.AcceptsClient() ||
		was.DeletionTimestamp.IsZero() != is.DeletionTimestamp.IsZero() || was.UID != is.UID
}
