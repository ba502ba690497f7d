package manifestwork

import (
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// What is checked and decided of a work while planning.

// validate checks the objects of all inputs together: what the hub or the agent would
// refuse later.
func validate(ctx context.Context, config tfsdk.Config, diags *diag.Diagnostics) {
	c := workload.Of(ctx, config, diags)
	if diags.HasError() {
		return
	}
	diags.Append(c.Check(workload.OfWorks())...)
	CheckOptions(ctx, config, c, diags)
}

// plan keeps the objects' old wording where the new one means the same, lists their
// fields, plans a wait where one is due, and has the hub check the complete work.
func plan(
	ctx context.Context, r *crud.Resource, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) bool {
	state := valuesOf(ctx, req.State)
	if req.Plan.Raw.IsNull() {
		if !r.Hub.HasWritten() {
			cluster := state.Text("managed_cluster")
			crud.WarnOfLostCluster(ctx, r.Hub.PlanClient(), cluster, named(state), &resp.Diagnostics)
		}
		return false
	}
	changed := workload.Plan(ctx, req, resp)
	if resp.Diagnostics.HasError() {
		return false
	}
	planned := valuesOf(ctx, resp.Plan)
	warnOfShared(ctx, r.Hub, req.Config, planned, &resp.Diagnostics)
	changes := attribute.ChangesBetween(resp.Plan.Raw, req.State.Raw)
	respecified := changed || changes.In("delete_option", "manifest_configs", "executor")
	if respecified {
		warnOfComplete(planned, state, &resp.Diagnostics)
	}
	workload.PlanReports(ctx, req, resp, respecified, []string{"conditions", "feedback"})
	return changed || changes.Beyond(append(table().Unwritten(), "fields", "force_conflicts", "timeouts")...)
}

// valuesOf are the attributes of a plan or a state; none of no plan or state.
func valuesOf(ctx context.Context, from crud.Getter) attribute.Values {
	var all types.Object
	from.Get(ctx, &all)
	return all.Attributes()
}

// named is what for a plan or a state.
func named(values attribute.Values) string {
	object := &workv1.ManifestWork{}
	object.Namespace, object.Name = values.Text("managed_cluster"), values.Text("name")
	return what(object)
}

// warnOfShared warns of objects that another work of this plan brings to the same
// cluster with another content. The agent would write one over the other.
func warnOfShared(
	ctx context.Context, h *hub.Hub, config tfsdk.Config, planned attribute.Values, diags *diag.Diagnostics,
) {
	if planned["managed_cluster"].IsUnknown() || planned["name"].IsUnknown() {
		return
	}
	cluster := planned.Text("managed_cluster")
	var lines []string
	objects, _ := workload.Of(ctx, config, &diag.Diagnostics{}).Known()
	for _, object := range objects {
		digest := sha256.Sum256(object.JSON)
		for _, other := range h.NoteHeld(cluster, planned.Text("name"), object.Key(), string(digest[:])) {
			lines = append(lines, fmt.Sprintf("  %s, which the work %q holds, too", object, other))
		}
	}
	if len(lines) == 0 || h.HasWritten() {
		return
	}
	diags.AddWarning("Held by several works: objects of "+named(planned),
		fmt.Sprintf("Another work of the cluster %q has the same objects with another content:\n%s\n\n"+
			"The agent would write each over the other, less and less often. Let one work hold an object, or give "+
			"both the same content.",
			cluster, attribute.JoinLines(attribute.Sorted(lines))))
}

// warnOfComplete warns of a change of a work that is Complete, and can be Complete
// again: it is not applied.
func warnOfComplete(planned, state attribute.Values, diags *diag.Diagnostics) {
	conditions, _ := state["conditions"].(types.List)
	for _, element := range conditions.Elements() {
		object, _ := element.(types.Object)
		c := attribute.Values(object.Attributes())
		if c.Text("type") == work.ConditionComplete && c.Text("status") == string(metav1.ConditionTrue) &&
			named(state) == named(planned) && workload.CanComplete(optionsOf(planned["manifest_configs"])) {
			diags.AddWarning("The change will not be applied: "+named(planned), workload.FinishedAdvice)
		}
	}
}
