package scheduling

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/expression"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// conditions report whether the placement is valid, and whether it has as many
// clusters as it asks for.
func (c *Compiled) conditions(sets Sets, available, selected int, problem *Problem, costly Costly) []metav1.Condition {
	configured := metav1.Condition{
		Type: cluster.ConditionPlacementMisconfigured, Status: metav1.ConditionFalse,
		Reason: cluster.ReasonSucceedConfigured, Message: cluster.MessageSucceedConfigured,
	}
	if problem != nil {
		configured.Status, configured.Reason = metav1.ConditionTrue, cluster.ReasonMisconfigured
		configured.Message = problem.String()
	}
	satisfied := metav1.Condition{Type: cluster.ConditionPlacementSatisfied, Status: metav1.ConditionFalse}
	missing := 0
	if n := c.placement.Spec.NumberOfClusters; n != nil {
		missing = int(*n) - selected
	}
	switch {
	case len(sets.Bound) == 0:
		satisfied.Reason, satisfied.Message = cluster.ReasonNoManagedClusterSetBindings, cluster.MessageNoManagedClusterSetBindings
	case len(sets.Eligible) == 0:
		satisfied.Reason = cluster.ReasonNoIntersection
		satisfied.Message = fmt.Sprintf("None of ManagedClusterSets [%s] is bound to placement namespace", strings.Join(c.placement.Spec.ClusterSets, ","))
	case available == 0:
		satisfied.Reason = cluster.ReasonAllManagedClusterSetsEmpty
		satisfied.Message = fmt.Sprintf("All ManagedClusterSets [%s] have no member ManagedCluster", strings.Join(sets.Eligible, ","))
	case selected == 0:
		satisfied.Reason, satisfied.Message = cluster.ReasonNoManagedClusterMatched, cluster.MessageNoManagedClusterMatched
	case missing <= 0:
		satisfied.Status = metav1.ConditionTrue
		satisfied.Reason, satisfied.Message = cluster.ReasonAllDecisionsScheduled, cluster.MessageAllDecisionsScheduled
	default:
		satisfied.Reason, satisfied.Message = cluster.ReasonNotAllDecisionsScheduled, fmt.Sprintf("%d cluster decisions unscheduled", missing)
	}
	if costly.Clusters > 0 {
		satisfied.Message += fmt.Sprintf(cluster.MessageCostlyExpression, costly.Clusters, costly.First, expression.Excerpt(costly.Expression), ClusterBudget)
	}
	// Readers see from it whether the last change has been processed.
	configured.ObservedGeneration, satisfied.ObservedGeneration = c.placement.Generation, c.placement.Generation
	return []metav1.Condition{configured, satisfied}
}
