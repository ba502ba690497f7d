package klusterlet

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
)

// ModifyPlan refuses a connection that now leads to another cluster, and keeps
// what an update will not change from being unknown.
func (r *klusterletResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() {
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
	ready, uid := types.BoolUnknown(), config.ClusterUID
	if uid.IsNull() {
		uid = types.StringUnknown()
	}
	if !req.State.Raw.IsNull() {
		was := placeIn(ctx, req.Private, &resp.Diagnostics)
		moved := r.moved(ctx, was, &plan, &state, &config, &resp.Diagnostics)
		if !moved && !plan.touchesCluster(&state) {
			ready = state.Ready
			if config.ClusterUID.IsNull() {
				uid = state.ClusterUID
			}
		}
	}
	if plan.WaitForBootstrap.Equal(types.BoolValue(false)) {
		ready = types.BoolNull()
	}
	resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("ready"), ready)...)
	resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("cluster_uid"), uid)...)
}

// touchesCluster reports whether going from the state to the plan takes anything
// in the managed cluster.
func (m *klusterletModel) touchesCluster(state *klusterletModel) bool {
	same := m.ClusterName.Equal(state.ClusterName) && m.Namespace.Equal(state.Namespace) && m.Image.Equal(state.Image) && m.Args.Equal(state.Args) &&
		m.BootstrapKubeconfigNumber.Equal(state.BootstrapKubeconfigNumber) && m.Installed.Equal(state.Installed)
	if !same {
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
func (r *klusterletResource) moved(ctx context.Context, was place, plan, state, config *klusterletModel, diags *diag.Diagnostics) bool {
	if plan.Connection == nil || len(plan.Connection.Unknown()) > 0 || was.UID == "" {
		return false
	}
	var ignored diag.Diagnostics
	agent := r.agent(plan, hub.ReadBudget, &ignored)
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
		return !reflect.DeepEqual(plan.Connection, state.Connection)
	}
	return found.UID != was.UID
}

func (r *klusterletResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan, config klusterletModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	timeout, diags := plan.Timeouts.Create(ctx, defaultInstall)
	resp.Diagnostics.Append(diags...)
	agent := r.agent(&plan, kube.DefaultRetryBudget, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	in := installation{agent: agent, joining: r.joining(agent.name), bootstrap: []byte(config.BootstrapKubeconfig.ValueString()), wanted: config.ClusterUID, timeout: timeout}
	// An error before the state is kept leaves nothing tainted, and applying
	// again goes on where this one ended. Behind it there are only warnings.
	if !in.begin(ctx, place{}, &resp.Diagnostics) || !in.unrivalled(ctx, &resp.Diagnostics) || !in.install(ctx, true, &resp.Diagnostics) {
		return
	}
	summary, detail := in.finish(ctx, &plan)
	if summary != "" {
		resp.Diagnostics.AddWarning(summary, detail)
	}
	in.found.keep(context.WithoutCancel(ctx), resp.Private, &resp.Diagnostics)
	resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, plan.identity())...)
}

func (r *klusterletResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan, state, config klusterletModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	timeout, diags := plan.Timeouts.Update(ctx, defaultInstall)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	was := placeIn(ctx, req.Private, &resp.Diagnostics)
	if !plan.ClusterUID.IsUnknown() && !plan.Ready.IsUnknown() && !plan.touchesCluster(&state) {
		// Only Terraform's own settings change, so a cluster that is away is no
		// reason to fail.
		resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
		resp.Diagnostics.Append(resp.Identity.Set(ctx, plan.identity())...)
		return
	}
	agent := r.agent(&plan, kube.DefaultRetryBudget, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	in := installation{agent: agent, joining: r.joining(agent.name), bootstrap: []byte(config.BootstrapKubeconfig.ValueString()), wanted: config.ClusterUID, timeout: timeout}
	if !in.begin(ctx, was, &resp.Diagnostics) {
		return
	}
	if was.UID != "" && was.UID != in.found.UID && was.Host != in.found.Host {
		r.leave(ctx, &state, was, &resp.Diagnostics)
	}
	renewed := !plan.BootstrapKubeconfigNumber.Equal(state.BootstrapKubeconfigNumber)
	if !in.install(ctx, renewed, &resp.Diagnostics) {
		return
	}
	if summary, detail := in.finish(ctx, &plan); summary != "" {
		resp.Diagnostics.AddError(summary, detail)
	}
	in.found.keep(context.WithoutCancel(ctx), resp.Private, &resp.Diagnostics)
	resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, plan.identity())...)
}

// installation puts an agent into its cluster.
type installation struct {
	agent     *agent
	joining   *joining
	bootstrap []byte
	// wanted is the cluster's UID by the configuration.
	wanted  types.String
	timeout time.Duration

	seen  sighting
	found place
	// approve says that the agent's request has to be approved from here.
	approve bool
	// hindered is why the agent may not be let in again.
	hindered error
}

// begin looks at the cluster and refuses one that is not the right one, or has
// an agent by another name.
func (in *installation) begin(ctx context.Context, was place, diags *diag.Diagnostics) bool {
	var err error
	a := in.agent
	if in.seen, in.found, err = a.visit(ctx); err != nil {
		hub.AddAPIError(diags, a.client, fmt.Sprintf("install the agent in cluster %q", a.name), err)
		return false
	}
	if !checkPlace(a.name, was, in.found, in.wanted, diags) {
		return false
	}
	if other := serves(in.seen.deployment); other != "" && other != a.name {
		diags.AddAttributeError(path.Root("cluster_connection"), fmt.Sprintf("The cluster at %s has an agent of another name", in.found.Host),
			fmt.Sprintf("The Deployment %s in the namespace %s serves the cluster %q, and not %q. One cluster joins a hub once. "+
				"Correct cluster_connection or cluster_name, or remove the other agent first, with the resource that installed it, or with kubectl delete namespace %s.", in.seen.deployment.Name, a.options.Namespace, other, a.name, a.options.Namespace))
		return false
	}
	return true
}

// unrivalled refuses to give a name to a cluster while the hub hears of another
// one that has it.
func (in *installation) unrivalled(ctx context.Context, diags *diag.Diagnostics) bool {
	other, ok := elsewhere(in.joining.cluster(ctx), in.found.UID)
	if !ok || !in.wanted.IsNull() {
		return true
	}
	diags.AddAttributeError(path.Root("cluster_name"), fmt.Sprintf("Another cluster is called %q", in.agent.name),
		fmt.Sprintf("The hub has an available cluster %q whose namespace kube-system has the UID %q, and the cluster at %s has %q. Installing the agent would take the name away from that cluster. "+
			"Give this cluster a name of its own; or, if it replaces the other one, set cluster_uid = %q.", in.agent.name, other, in.found.Host, in.found.UID, in.found.UID))
	return false
}

// install applies the agent's objects. A bootstrap kubeconfig that is in place
// is left alone unless renew is set or the agent has no certificate: writing
// another one restarts the agent's registration.
func (in *installation) install(ctx context.Context, renew bool, diags *diag.Diagnostics) bool {
	bootstrap := in.bootstrap
	if !renew && in.seen.bootstrap && in.seen.certified {
		bootstrap = nil
	}
	record := in.joining.cluster(ctx)
	if len(bootstrap) > 0 && !in.seen.certified && hasJoined(record) {
		in.approve, in.hindered = in.joining.allow(ctx, bearerOf(bootstrap))
	}
	for _, object := range in.agent.objects(bootstrap) {
		if !in.agent.Apply(ctx, object, diags) {
			return false
		}
	}
	in.joining.note(ctx, record, in.found.UID)
	return true
}

// finish waits for the agent if the plan says so, and completes the plan. A
// summary is the summary of a wait that failed.
func (in *installation) finish(ctx context.Context, plan *klusterletModel) (summary, detail string) {
	plan.ClusterUID, plan.Ready = types.StringValue(in.found.UID), types.BoolNull()
	if !plan.WaitForBootstrap.ValueBool() {
		return "", ""
	}
	err := in.agent.await(ctx, in.joining, in.approve, bearerOf(in.bootstrap))
	plan.Ready = types.BoolValue(err == nil)
	if err == nil {
		return "", ""
	}
	summary, detail = in.agent.explainWait(ctx, in.joining, err, in.timeout)
	if in.hindered != nil {
		detail += "\n\nCould not allow the cluster to join the hub again: " + in.hindered.Error()
	}
	return summary, detail
}

// leave removes the agent from the cluster that had the name before, if that
// still answers. Its works are not waited for: they go on in the other cluster.
func (r *klusterletResource) leave(ctx context.Context, state *klusterletModel, was place, diags *diag.Diagnostics) {
	var problems diag.Diagnostics
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	before := r.agent(state, hub.ReadBudget, &problems)
	if before != nil {
		if found, err := before.place(ctx); err == nil && found.UID == was.UID {
			before.Remove(ctx, time.Minute, &problems)
			if !problems.HasError() {
				return
			}
		}
	}
	diags.AddWarning(fmt.Sprintf("The agent was not removed from the cluster that was %q before", state.ClusterName.ValueString()),
		fmt.Sprintf("The cluster at %s, with the UID %q, does not answer by the connection from before, or its agent could not be removed. The hub stops serving an agent that still runs there once the new one has joined.", was.Host, was.UID))
}

// visit looks at the agent and at which cluster it is in.
func (a *agent) visit(ctx context.Context) (sighting, place, error) {
	found, err := a.place(ctx)
	if err != nil {
		return sighting{}, place{}, err
	}
	seen, err := a.look(ctx)
	return seen, found, err
}
