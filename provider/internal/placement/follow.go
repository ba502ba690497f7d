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
)

// settleTime is how long an apply without a wait lets the scheduler decide before
// it reads the decisions.
const settleTime = 5 * time.Second

// expect fills in what a change is expected to select where the plan left that
// open. It has to run before the change is written.
func expect(ctx context.Context, c *placementChange) bool {
	plan := c.Plan
	if !plan["planned_clusters"].IsUnknown() {
		return true
	}
	preview, _ := predict(ctx, c.Hub, plan) // The write reports an error, if that matters.
	plan["planned_clusters"] = attribute.StringListValue(preview.Clusters)
	plan["planned_added"] = attribute.StringListValue(preview.Added)
	plan["planned_dropped"] = attribute.StringListValue(preview.Dropped)
	return true
}

// follow is what comes after a placement was written: a wait where one is asked
// for, and otherwise a while for the scheduler to decide in.
func follow(ctx context.Context, c *placementChange) crud.Follow {
	plan, object := c.Plan, c.Object
	f := crud.Follow{
		Attribute: waitAttribute(),
		Report: func() {
			reading, cancel := context.WithTimeout(context.WithoutCancel(ctx), hub.ReadTimeout)
			defer cancel()
			plan["selected_clusters"] = selectedSince(reading, c)
		},
	}
	if wait := attribute.As[*waitModel](plan["wait"]); wait != nil {
		f.Wait = wait.wait(c.Client, c.What, object, c.Timeout).Run
	}
	if c.Prior == nil || plan["selected_clusters"].IsUnknown() {
		f.Settle = func(waiting context.Context) { settle(waiting, c.Client, plan, object) }
	}
	return f
}

// settle lets the scheduler decide for a while. Nobody asked for that, so it is no error
// if it does not.
func settle(ctx context.Context, client *kube.Client, plan values, object placement) {
	if schedulingDisabled(plan) {
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
	if !schedulingDisabled(c.Plan) && !decidedOn(c.Object) {
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
func selected(ctx context.Context, client *kube.Client, object placement) (types.List, error) {
	none := types.ListNull(types.StringType)
	if meta.FindStatusCondition(object.Status.Conditions, cluster.ConditionPlacementSatisfied) == nil {
		return none, nil
	}
	made, err := decisionsOf(ctx, client, object.Namespace, object.Name)
	switch {
	case apierrors.IsForbidden(err):
		return none, nil
	case err != nil:
		return none, fmt.Errorf("read its decisions: %w", err)
	}
	clusters, _ := decided(made)
	return attribute.StringListValue(clusters), nil
}
