package placement

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

// settleTime is how long an apply without a wait lets the scheduler decide before
// it reads the decisions.
const settleTime = 5 * time.Second

// expect fills in what a change is expected to select where the plan left that
// open. It has to run before the change is written.
func (r *placementResource) expect(ctx context.Context, plan *placementModel) {
	if !plan.PlannedClusters.IsUnknown() {
		return
	}
	null := types.ListNull(types.StringType)
	plan.PlannedClusters, plan.PlannedAdded, plan.PlannedDropped = null, null, null
	if !plan.previews() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, hub.PreviewTimeout)
	defer cancel()
	snapshot, err := r.Hub.LiveFleet(ctx)
	if err != nil {
		return // The write will tell, if that matters.
	}
	preview := snapshot.Preview(plan.scheduled(), false)
	plan.PlannedClusters, plan.PlannedAdded, plan.PlannedDropped = attribute.StringListValue(preview.Clusters), attribute.StringListValue(preview.Added), attribute.StringListValue(preview.Dropped)
}

// follow is what comes after a placement was written: a wait where one is asked
// for, and otherwise a while for the scheduler to decide in. waiting ends with the
// timeout, ctx does not.
func (r *placementResource) follow(
	ctx, waiting context.Context, plan *placementModel, object *clusterv1beta1.Placement, timeout time.Duration, diags *diag.Diagnostics,
) crud.Follow {
	return crud.Follow{
		Waits: plan.Wait != nil, Ready: &plan.Ready, Kind: "placement",
		Wait:   func() (summary, problem string) { return r.await(waiting, plan, object, timeout) },
		Report: func() { plan.SelectedClusters = r.selectedSince(ctx, plan, object, diags) },
	}
}

// await waits for what the plan waits for, and otherwise lets the scheduler decide
// for a while. It returns what to say when the placement is not ready.
func (r *placementResource) await(ctx context.Context, plan *placementModel, object *clusterv1beta1.Placement, timeout time.Duration) (summary, problem string) {
	var diags diag.Diagnostics
	client := r.Hub.Client(&diags)
	if client == nil {
		return "", ""
	}
	if plan.Wait == nil {
		if plan.schedulingDisabled() {
			return "", ""
		}
		ctx, cancel := context.WithTimeout(ctx, settleTime)
		defer cancel()
		_ = waitForPlacement(ctx, client, object, func() bool { return decidedOn(object) }) // Nobody asked for it.
		return "", ""
	}
	err := waitForPlacement(ctx, client, object, func() bool { return len(plan.Wait.lacks(object)) == 0 })
	summary = "Not ready: " + plan.What()
	switch {
	case err == nil:
		return "", ""
	case hub.IsTimeout(err):
		return summary, describePlacement(object, plan.Wait, timeout, time.Now())
	default:
		return summary, hub.Explain(client.Host(), "wait for it", err)
	}
}

// selectedSince is what selected tells after a write; null if the scheduler has
// not dealt with that.
func (r *placementResource) selectedSince(ctx context.Context, plan *placementModel, object *clusterv1beta1.Placement, diags *diag.Diagnostics) types.List {
	if !plan.schedulingDisabled() && !decidedOn(object) {
		return types.ListNull(types.StringType)
	}
	return r.selected(ctx, object, diags)
}

// selected lists the clusters in the placement's decisions; null where the
// scheduler has never decided and where they may not be read.
func (r *placementResource) selected(ctx context.Context, object *clusterv1beta1.Placement, diags *diag.Diagnostics) types.List {
	client := r.Hub.Client(diags)
	if client == nil || meta.FindStatusCondition(object.Status.Conditions, cluster.ConditionPlacementSatisfied) == nil {
		return types.ListNull(types.StringType)
	}
	decisions := &clusterv1beta1.PlacementDecisionList{}
	err := client.List(ctx, decisions, kube.ListOptions{Namespace: object.Namespace, LabelSelector: cluster.PlacementLabel + "=" + object.Name})
	switch {
	case apierrors.IsForbidden(err):
		return types.ListNull(types.StringType)
	case err != nil:
		hub.AddAPIError(diags, client, fmt.Sprintf("read the decisions of placement %q", object.Namespace+"/"+object.Name), err)
		return types.ListNull(types.StringType)
	}
	clusters, _ := decided(decisions.Items)
	return attribute.StringListValue(append([]string{}, attribute.Texts(clusters)...))
}
