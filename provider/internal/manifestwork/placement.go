package manifestwork

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

// placementAttribute is the placement that a work depends on.
func placementAttribute() schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{
		MarkdownDescription: "Placement that has to have chosen the cluster before the work is created. Creating " +
			"waits for it; a cluster that the placement drops later keeps the work, " +
			"so a cluster that is unavailable for a while does not lose what runs in it.",
		Optional: true,
		Attributes: map[string]schema.Attribute{
			"namespace": attribute.Required("Namespace of the placement.", attribute.ValidName("namespace")),
			"name":      attribute.Required("Name of the placement.", attribute.ValidName("placement name")),
		},
	}
}

// waitUntilChosen returns once the placement has chosen the cluster. It reports
// whether it has.
func waitUntilChosen(ctx context.Context, c *change) bool {
	wanted, _ := c.Plan["placement"].(types.Object)
	of := attribute.Values(wanted.Attributes())
	namespace, name := of.Text("namespace"), of.Text("name")
	clusterName := c.Keys[0]
	decisions := &clusterv1beta1.PlacementDecisionList{}
	err := c.Client.WaitList(ctx, decisions, &clusterv1beta1.PlacementDecision{},
		kube.ListOptions{Namespace: namespace, LabelSelector: cluster.PlacementLabel + "=" + name},
		func() (bool, error) {
			return slices.ContainsFunc(decisions.Items, func(d clusterv1beta1.PlacementDecision) bool {
				return slices.ContainsFunc(d.Status.Decisions, func(x clusterv1beta1.ClusterDecision) bool {
					return x.ClusterName == clusterName
				})
			}), nil
		})
	switch {
	case err == nil:
		return true
	case !hub.IsTimeout(err):
		hub.AddAPIError(c.Diagnostics, c.Client,
			fmt.Sprintf("wait until placement %q chooses cluster %q", namespace+"/"+name, clusterName), err)
		return false
	}
	why := fmt.Sprintf("There is no placement %q in namespace %q.", name, namespace)
	placement := &clusterv1beta1.Placement{}
	if err := c.Client.Get(context.WithoutCancel(ctx), placement, namespace, name); err == nil {
		why = "Conditions of the placement:\n" + hub.DescribeConditions(placement.Status.Conditions, time.Now())
	}
	c.Diagnostics.AddAttributeError(path.Root("placement"),
		fmt.Sprintf("Placement %q has not chosen cluster %q", namespace+"/"+name, clusterName),
		fmt.Sprintf("After %s the cluster is not among its decisions. %s\n\nCompare the labels and taints of the "+
			"cluster with the placement's predicates and tolerations:\n  kubectl describe managedcluster %s\n  "+
			"kubectl describe placement -n %s %s",
			c.Timeout, why, clusterName, namespace, name))
	return false
}
