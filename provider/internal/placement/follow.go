package placement

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/types"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

// settleTime is how long an apply without a wait lets the scheduler decide before
// it reads the decisions.
const settleTime = 5 * time.Second

// expect fills in what a change is expected to select where the plan left that
// open. It has to run before the change is written.
func expect(ctx context.Context, c *placementChange) bool {
	plan := c.Plan
	if !plan.PlannedClusters.IsUnknown() {
		return true
	}
	null := types.ListNull(types.StringType)
	plan.PlannedClusters, plan.PlannedAdded, plan.PlannedDropped = null, null, null
	if !plan.previews() {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, hub.PreviewTimeout)
	defer cancel()
	snapshot, err := c.Hub.LiveFleet(ctx)
	if err != nil {
		return true // The write will report it, if that matters.
	}
	preview := snapshot.Preview(plan.scheduled(), false)
	plan.PlannedClusters = attribute.StringListValue(preview.Clusters)
	plan.PlannedAdded = attribute.StringListValue(preview.Added)
	plan.PlannedDropped = attribute.StringListValue(preview.Dropped)
	return true
}

// follow is what comes after a placement was written: a wait where one is asked
// for, and otherwise a while for the scheduler to decide in.
func follow(ctx context.Context, c *placementChange) crud.Follow {
	plan, object := c.Plan, c.Object
	f := crud.Follow{
		Attribute: waitAttribute(), Ready: &plan.Ready,
		Report: func() {
			reading, cancel := context.WithTimeout(context.WithoutCancel(ctx), hub.ReadTimeout)
			defer cancel()
			plan.SelectedClusters = selectedSince(reading, c)
		},
	}
	if plan.Wait != nil {
		f.Wait = plan.Wait.wait(c.Client, c.What, object, c.Timeout).Run
	}
	if c.Prior == nil || plan.SelectedClusters.IsUnknown() {
		f.Settle = func(waiting context.Context) { settle(waiting, c.Client, plan, object) }
	}
	return f
}

// settle lets the scheduler decide for a while. Nobody asked for that, so it is no error
// if it does not.
func settle(ctx context.Context, client *kube.Client, plan *placementModel, object *clusterv1beta1.Placement) {
	if plan.schedulingDisabled() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	_ = client.Wait(ctx, object, object.Namespace, object.Name, func(exists bool) (bool, error) {
		return !exists || decidedOn(object), nil
	})
}

// selectedSince is what selected says after a write; null if the scheduler has not dealt
// with that.
func selectedSince(ctx context.Context, c *placementChange) types.List {
	if !c.Plan.schedulingDisabled() && !decidedOn(c.Object) {
		return types.ListNull(types.StringType)
	}
	clusters, err := selected(ctx, c.Client, c.Object)
	if err != nil {
		hub.AddAPIError(c.Diagnostics, c.Client, "read the decisions of "+c.What, err)
	}
	return clusters
}

// selected lists the clusters in the placement's decisions; null where the
// scheduler has never decided and where they may not be read.
func selected(ctx context.Context, client *kube.Client, object *clusterv1beta1.Placement) (types.List, error) {
	none := types.ListNull(types.StringType)
	if meta.FindStatusCondition(object.Status.Conditions, cluster.ConditionPlacementSatisfied) == nil {
		return none, nil
	}
	decisions := &clusterv1beta1.PlacementDecisionList{}
	err := client.List(ctx, decisions, kube.ListOptions{
		Namespace: object.Namespace, LabelSelector: cluster.PlacementLabel + "=" + object.Name,
	})
	switch {
	case apierrors.IsForbidden(err):
		return none, nil
	case err != nil:
		return none, fmt.Errorf("read its decisions: %w", err)
	}
	clusters, _ := decided(decisions.Items)
	return attribute.StringListValue(append([]string{}, attribute.Texts(clusters)...)), nil
}
