package placement

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

// When a placement is what a wait waits for.

type waitModel struct {
	Satisfied   types.Bool     `tfsdk:"satisfied"`
	MinClusters types.Int64    `tfsdk:"min_clusters"`
	Conditions  []types.String `tfsdk:"conditions"`
}

func waitAttribute() crud.WaitAttribute {
	return crud.WaitAttribute{
		Kind: "placement",
		Lost: "the placement and everything that follows its decisions",
		Notes: "Upstream's scheduler does not set the observed generation of conditions: " +
			"there, a condition from before an update counts.",
		Options: crud.WaitOptions{
			crud.WaitFlag("satisfied", "Whether to wait until as many clusters are selected as the placement asks "+
				"for; at least one. It is the condition `PlacementSatisfied`."),
			crud.WaitCount("min_clusters", "Waits until at least this many clusters are selected."),
			crud.WaitConditions("Conditions of the placement to wait for, each as its type, which then has to be " +
				"true, or as `type=status`, such as `PlacementMisconfigured=False`."),
		},
	}
}

// wait waits for a placement.
func (m *waitModel) wait(
	client *kube.Client, what string, object *clusterv1beta1.Placement, timeout time.Duration,
) *crud.Wait {
	return &crud.Wait{
		Client: client, What: what, Resource: "placement", Object: object, Timeout: timeout,
		Missing:    func() []string { return m.missing(object) },
		Conditions: func() []metav1.Condition { return object.Status.Conditions },
		Details: func(context.Context) []string {
			lines := []string{fmt.Sprintf("Selected clusters: %d.", object.Status.NumberOfSelectedClusters)}
			if remedy := placementRemedy(object); remedy != "" {
				lines = append(lines, "", remedy)
			}
			return lines
		},
	}
}

// missing lists what is not as the wait wants it.
func (m *waitModel) missing(object *clusterv1beta1.Placement) []string {
	wanted := attribute.WaitConditionsAnd(m.Conditions, m.Satisfied, cluster.ConditionPlacementSatisfied)
	missing := attribute.UnmetConditions(wanted, object.Status.Conditions, object.Generation, "the scheduler")
	have, want := int64(object.Status.NumberOfSelectedClusters), m.MinClusters.ValueInt64()
	if have < want || (want > 0 && !decidedOn(object)) {
		missing = append(missing, fmt.Sprintf("min_clusters: %d of %d are selected", have, want))
	}
	return missing
}

// decidedOn reports whether the scheduler has dealt with the placement as it is now.
// Schedulers that do not say which generation they have seen are believed.
func decidedOn(object *clusterv1beta1.Placement) bool {
	c := meta.FindStatusCondition(object.Status.Conditions, cluster.ConditionPlacementSatisfied)
	return c != nil && (c.ObservedGeneration == 0 || c.ObservedGeneration >= object.Generation)
}

// placementRemedy is what helps a placement that is not satisfied.
func placementRemedy(object *clusterv1beta1.Placement) string {
	if meta.IsStatusConditionTrue(object.Status.Conditions, cluster.ConditionPlacementMisconfigured) {
		return "Correct what the condition PlacementMisconfigured names."
	}
	c := meta.FindStatusCondition(object.Status.Conditions, cluster.ConditionPlacementSatisfied)
	if c == nil {
		return "Perhaps no scheduler runs on the hub."
	}
	switch c.Reason {
	case cluster.ReasonNoManagedClusterSetBindings:
		return "Bind a cluster set to the namespace with a muster_managed_cluster_set_binding, and let the " +
			"placement depend on it: kubectl get managedclustersetbindings -n " + object.Namespace
	case cluster.ReasonNoIntersection:
		return fmt.Sprintf("None of the sets in cluster_sets (%s) is bound to the namespace: kubectl get "+
			"managedclustersetbindings -n %s",
			strings.Join(object.Spec.ClusterSets, ", "), object.Namespace)
	case cluster.ReasonAllManagedClusterSetsEmpty:
		return "Put clusters into these sets with cluster_set of muster_managed_cluster."
	case cluster.ReasonNoManagedClusterMatched, cluster.ReasonNotAllDecisionsScheduled:
		return "The data source muster_placement_preview explains why each cluster is not selected. " +
			"Often it is a taint: clusters that are not accepted, or whose agent is silent, have one."
	}
	return ""
}
