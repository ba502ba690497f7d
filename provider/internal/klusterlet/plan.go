package klusterlet

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// ModifyPlan refuses a connection that now leads to another cluster, and keeps
// what an update will not change from being unknown.
func (r *klusterletResource) ModifyPlan(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) {
	if req.Plan.Raw.IsNull() {
		r.warnOfWorks(ctx, req, &resp.Diagnostics)
		return
	}
	var plan, state, config klusterletModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	if !req.State.Raw.IsNull() {
		resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	}
	if resp.Diagnostics.HasError() {
		return
	}
	if req.State.Raw.IsNull() && config.ownsKubeconfig() && config.BootstrapKubeconfig.IsNull() {
		needsKubeconfig(config.ClusterName.ValueString(), &resp.Diagnostics)
		return
	}
	r.planAttempt(ctx, req, resp, &plan, &state, &config)
}

// planAttempt plans what comes of an attempt to install or to change the agent, and of
// another one after one that failed.
func (r *klusterletResource) planAttempt(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
	plan, state, config *klusterletModel,
) {
	creates := req.State.Raw.IsNull()
	ready, uid := types.BoolUnknown(), config.ClusterUID
	if uid.IsNull() {
		uid = types.StringUnknown()
	}
	if !creates {
		was := placeIn(ctx, req.Private, &resp.Diagnostics)
		moved := r.moved(ctx, was, plan, state, config, &resp.Diagnostics)
		if !moved && !plan.touchesCluster(state) {
			ready = state.Ready
			if config.ClusterUID.IsNull() {
				uid = state.ClusterUID
			}
		}
	}
	if plan.WaitForBootstrap.Equal(types.BoolValue(false)) {
		ready = types.BoolNull()
	}
	set := func(attribute string, value any) {
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root(attribute), value)...)
	}
	set("ready", ready)
	set("cluster_uid", uid)
	if resp.Diagnostics.HasError() {
		return
	}
	plan.ClusterUID = uid
	attempt := creates || state.failed() || ready.IsUnknown() || uid.IsUnknown() || plan.touchesCluster(state)
	joined := state.Joined
	if attempt {
		joined = types.BoolUnknown()
	}
	set("joined", joined)
	if !attempt || (plan.OnFailure.ValueString() != onFailureContinue && !plan.OnFailure.IsUnknown()) {
		set("problems", noProblems())
		set("offline", false)
		return
	}
	set("offline", types.BoolUnknown())
	set("problems", types.ListUnknown(types.StringType))
	set("installed", types.BoolUnknown())
}

// warnOfWorks names the works for which the removal of the agent will wait, and which
// neither a Terraform resource nor the hub is going to delete.
func (r *klusterletResource) warnOfWorks(ctx context.Context, req resource.ModifyPlanRequest, diags *diag.Diagnostics) {
	var state klusterletModel
	client := r.Hub.PlanClient()
	if client == nil || r.Hub.HasWritten() || req.State.Get(ctx, &state).HasError() ||
		state.KeepWorksOnDestroy.ValueBool() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, hub.PreviewTimeout)
	defer cancel()
	name, works := state.ClusterName.ValueString(), &workv1.ManifestWorkList{}
	if err := client.List(ctx, works, kube.ListOptions{Namespace: name}); err != nil {
		r.Hub.DidNotAnswer(err)
		return
	}
	if left := foreignWorks(works.Items); len(left) > 0 {
		diags.AddWarning(fmt.Sprintf("Works will hold up the removal of the agent from cluster %q", name),
			fmt.Sprintf("The hub has works for the cluster that neither a Terraform resource nor a controller of the "+
				"hub keeps, so destroying the agent does not delete them:\n%s\n\n"+
				"The agent is removed only when what they applied is gone. Delete them first: kubectl delete "+
				"manifestworks -n %s NAME\n%s", attribute.JoinLines(left), name, keepWorksAdvice))
	}
}

// foreignWorks are those that somebody has made by hand and nobody deletes.
func foreignWorks(works []workv1.ManifestWork) []string {
	var names []string
	for i := range works {
		w := &works[i]
		made := w.Labels[work.ReplicaSetLabel] + w.Labels[muster.LogicalCloudLabel] + w.Labels[cluster.AddOnNameLabel]
		if w.DeletionTimestamp == nil && made+crud.OwnerMark(w) == "" && len(w.OwnerReferences) == 0 {
			names = append(names, "  "+w.Name)
		}
	}
	return attribute.Sorted(names)
}

// touchesCluster reports whether going from the state to the plan takes anything
// in the managed cluster.
func (m *klusterletModel) touchesCluster(state *klusterletModel) bool {
	same := m.ClusterName.Equal(state.ClusterName) && m.Namespace.Equal(state.Namespace) &&
		m.OptionsModel.Equal(state.OptionsModel) && m.Installed.Equal(state.Installed)
	if !same || m.renewsBootstrap(state) || (m.insists() && !state.insists()) {
		return true
	}
	if !m.ClusterUID.IsUnknown() && !m.ClusterUID.Equal(state.ClusterUID) {
		return true
	}
	return m.WaitForBootstrap.ValueBool() && !state.Ready.ValueBool()
}

// moved reports whether the planned connection has another address than the one
// by which the agent was installed, and refuses one that leads to another
// cluster. A cluster that is away is asked again when the plan is carried out.
func (r *klusterletResource) moved(
	ctx context.Context, was place, plan, state, config *klusterletModel, diags *diag.Diagnostics,
) bool {
	if !attribute.Known(plan.Connection) || was.UID == "" {
		return false
	}
	var ignored diag.Diagnostics
	agent := r.agent(plan, refreshBudget, &ignored)
	if agent == nil || agent.client.Host() == was.Host {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, hub.ReadBudget)
	defer cancel()
	found, err := agent.place(ctx)
	if err == nil {
		checkPlace(agent.name, was, found, config.ClusterUID, diags)
	}
	if err != nil {
		return !plan.Connection.Equal(state.Connection)
	}
	return found.UID != was.UID
}
