package klusterlet

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/klusterlet"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
)

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
	in := r.installation(agent, &plan, &config, config.ownsKubeconfig(), timeout)
	// An error before the state is kept leaves nothing tainted, and applying
	// again goes on where this one ended.
	if !in.begin(ctx, place{}, &resp.Diagnostics) || !in.unrivalled(ctx, &resp.Diagnostics) ||
		!in.install(ctx, &resp.Diagnostics) {
		return
	}
	switch summary, detail := in.finish(ctx, &plan, &resp.Diagnostics); {
	case summary == "":
	case plan.OnFailure.ValueString() == onFailureContinue:
		resp.Diagnostics.AddError(summary, detail) // which becomes a warning, and is among the problems
	default:
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
		if plan.Joined.IsUnknown() {
			plan.Joined = state.Joined
		}
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
	in := r.installation(agent, &plan, &config, plan.renewsBootstrap(&state), timeout)
	if !in.begin(ctx, was, &resp.Diagnostics) {
		return
	}
	if was.UID != "" && was.UID != in.found.UID && was.Host != in.found.Host {
		r.leave(ctx, &state, was, &resp.Diagnostics)
	}
	if !in.install(ctx, &resp.Diagnostics) {
		return
	}
	if summary, detail := in.finish(ctx, &plan, &resp.Diagnostics); summary != "" {
		resp.Diagnostics.AddError(summary, detail)
	}
	in.found.keep(context.WithoutCancel(ctx), resp.Private, &resp.Diagnostics)
	resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, plan.identity())...)
}

// installation puts an agent into its cluster.
type installation struct {
	handover
	agent   *agent
	joining *joining
	// wanted is the cluster's UID by the configuration.
	wanted  types.String
	timeout time.Duration

	seen  observation
	found place
	// approve says that the agent's request has to be approved from here.
	approve bool
	// hindered is why the agent may not be let in again.
	hindered error
}

// installation prepares one. renew asks for another bootstrap kubeconfig although the one
// in place may do.
func (r *klusterletResource) installation(
	a *agent, plan, config *klusterletModel, renew bool, timeout time.Duration,
) *installation {
	return &installation{
		agent: a, joining: r.joining(a.name), wanted: config.ClusterUID, timeout: timeout,
		handover: handover{
			hub: r.Hub, kubeconfig: []byte(config.BootstrapKubeconfig.ValueString()),
			own: plan.ownsKubeconfig(), makes: plan.makesKubeconfig(), insists: plan.insists(),
			kind: plan.bootstrapAttribute(), renew: renew,
		},
	}
}

// begin looks at the cluster and refuses one that is not the right one, or has
// an agent by another name.
func (in *installation) begin(ctx context.Context, was place, diags *diag.Diagnostics) bool {
	var err error
	a := in.agent
	doing := fmt.Sprintf("install the agent in cluster %q", a.name)
	if in.seen, in.found, err = a.visit(ctx); err == nil && in.seen.leaving != nil {
		in.seen, err = a.awaitNamespaceGone(ctx, in.seen.leaving)
	}
	if err != nil && hub.IsTimeout(err) && in.seen.leaving != nil {
		diags.AddError("Cannot "+doing, fmt.Sprintf("Its namespace %s is still being deleted "+
			"after %s.\n%s", a.options.Namespace, in.timeout,
			hub.DescribeDeletion(in.seen.leaving, time.Now())+describeNamespace(in.seen.leaving)))
		return false
	}
	if err != nil {
		problem := diag.NewErrorDiagnostic("Cannot "+doing, hub.Explain(a.client.Host(), doing, err))
		if was.Host == a.client.Host() && kube.IsAway(err) {
			diags.Append(offlineDiagnostic{problem})
		} else {
			diags.Append(problem)
		}
		return false
	}
	if !checkPlace(a.name, was, in.found, in.wanted, diags) {
		return false
	}
	if in.makes && in.joining.strayed(ctx, a, in.kind.Bootstrap(a.name, ""), in.seen) != "" {
		in.seen.certified = false
	}
	if other := klusterlet.Serves(in.seen.deployment); other != "" && other != a.name {
		diags.AddAttributeError(path.Root("cluster_connection"), fmt.Sprintf("The cluster at %s has an agent of "+
			"another name", in.found.Host),
			fmt.Sprintf("The Deployment %s in the namespace %s serves the cluster %q, and not %q. One cluster joins "+
				"a hub once. "+
				"Correct cluster_connection or cluster_name, or remove the other agent first, with the resource that "+
				"installed it, or with kubectl delete "+
				"namespace %s.", in.seen.deployment.Name, a.options.Namespace, other, a.name, a.options.Namespace))
		return false
	}
	return a.mayInstall(in.seen.deployment, in.found, diags)
}

// mayInstall refuses to take turns with a hub that installs the agent itself.
func (a *agent) mayInstall(deployment *appsv1.Deployment, found place, diags *diag.Diagnostics) bool {
	if klusterlet.InstalledBy(deployment) != muster.InstalledByImport {
		return true
	}
	diags.AddAttributeError(path.Root("cluster_connection"), fmt.Sprintf("The agent in cluster %q is installed "+
		"by its hub", a.name),
		fmt.Sprintf("In the cluster at %s a ClusterImport of the hub has installed the agent, by the annotation %s "+
			"of the Deployment %s/%s. It and Terraform would take turns in changing it. "+
			"Remove this resource; or delete the ClusterImport %s on the hub, which leaves the agent in place, and "+
			"let Terraform take it over: "+
			"kubectl -n %s annotate "+
			"deployment %s %s-", found.Host, muster.InstalledByAnnotation, a.options.Namespace, klusterlet.Name, a.name,
			a.options.Namespace, klusterlet.Name, muster.InstalledByAnnotation))
	return false
}

// awaitNamespaceGone waits until the agent's namespace, which is being deleted, is gone, and
// looks again. After an error the observation has what was seen of it last.
func (a *agent) awaitNamespaceGone(ctx context.Context, leaving *corev1.Namespace) (observation, error) {
	if err := a.client.WaitGone(ctx, leaving, "", leaving.Name, leaving.UID); err != nil {
		return observation{leaving: leaving}, err
	}
	return a.look(ctx)
}

// unrivalled refuses to give a name to a cluster while the hub hears of another
// one that has it.
func (in *installation) unrivalled(ctx context.Context, diags *diag.Diagnostics) bool {
	other, ok := elsewhere(in.joining.cluster(ctx), in.found.UID)
	if !ok || !in.wanted.IsNull() {
		return true
	}
	diags.AddAttributeError(path.Root("cluster_name"), fmt.Sprintf("Another cluster is called %q", in.agent.name),
		fmt.Sprintf("The hub has an available cluster %q whose namespace kube-system has the UID %q, and the cluster "+
			"at %s has %q. Installing the agent would take the name away from that cluster. "+
			"Give this cluster a name of its own; or, if it replaces the other one, set "+
			"cluster_uid = %q.", in.agent.name, other, in.found.Host, in.found.UID, in.found.UID))
	return false
}

// install applies the agent's objects, with a bootstrap kubeconfig if it needs one.
func (in *installation) install(ctx context.Context, diags *diag.Diagnostics) bool {
	if !in.prepare(ctx, in.agent.name, in.found.UID, in.seen, diags) {
		return false
	}
	record := in.joining.cluster(ctx)
	if len(in.kubeconfig) > 0 && !in.seen.certified && record != nil && record.HasAgent() {
		in.approve, in.hindered = in.joining.allow(ctx, bearerOf(in.kubeconfig))
	}
	for _, object := range in.seen.added {
		if err := in.agent.restore(ctx, object, diags); err != nil {
			doing := fmt.Sprintf("remove what was added to %s %s in "+
				"cluster %q", kindOf(object), object.GetName(), in.agent.name)
			hub.AddAPIError(diags, in.agent.client, doing, err)
			in.settle(ctx, in.agent.name, in.found.UID, diags)
			return false
		}
	}
	for _, object := range in.agent.objects(in.kubeconfig) {
		if !in.agent.Apply(ctx, object, diags) {
			in.settle(ctx, in.agent.name, in.found.UID, diags)
			return false
		}
	}
	for _, object := range in.seen.obsolete {
		namespace, name := object.GetNamespace(), object.GetName()
		if err := in.agent.client.DeleteAndWait(ctx, kube.Fresh(object), namespace, name); err != nil {
			hub.AddAPIError(diags, in.agent.client, fmt.Sprintf("remove %s %s from "+
				"cluster %q", kindOf(object), object.GetName(), in.agent.name), err)
			in.settle(ctx, in.agent.name, in.found.UID, diags)
			return false
		}
	}
	in.joining.note(ctx, record, in.found.UID)
	return true
}

// finish waits for the agent if the plan says so, and completes the plan. A
// summary is the summary of a wait that failed.
func (in *installation) finish(
	ctx context.Context, plan *klusterletModel, diags *diag.Diagnostics) (summary, detail string,
) {
	plan.ClusterUID, plan.Ready = types.StringValue(in.found.UID), types.BoolNull()
	plan.Joined, plan.Offline = types.BoolValue(in.seen.certified), types.BoolValue(false)
	if !plan.WaitForBootstrap.ValueBool() {
		return "", ""
	}
	err := in.await(ctx)
	plan.Ready = types.BoolValue(err == nil)
	if err == nil {
		plan.Joined = types.BoolValue(true)
		in.settle(ctx, in.agent.name, in.found.UID, diags)
		return "", ""
	}
	summary, detail = in.agent.explainWait(ctx, in.joining, err, in.timeout)
	if hub.IsTimeout(err) && !in.seen.certified {
		detail += "\n" + in.adviseServer()
	}
	if remains := in.remains(); remains != "" {
		detail += "\n\n" + remains
	}
	if in.hindered != nil {
		detail += "\n\nCould not allow the cluster to join the hub again: " + in.hindered.Error()
	}
	return summary, detail
}

// adviseServer says what to change where the agent can't reach the hub.
func (in *installation) adviseServer() string {
	server, ok := serverOf(in.kubeconfig)
	if !ok {
		server = in.seen.server
	}
	if server == "" {
		return ""
	}
	return fmt.Sprintf("The agent has to reach the hub at %s from inside the cluster. If that is another address "+
		"there, set bootstrap = { server = … } (hub_server in the module fleet-onboarding); "+
		"behind a proxy, env = { HTTPS_PROXY = … }; and for a server with a certificate of another authority, "+
		"bootstrap = { cluster_ca_certificate = … }.", server)
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
	diags.AddWarning(fmt.Sprintf("The agent was not removed from the cluster that was "+
		"%q before", state.ClusterName.ValueString()),
		fmt.Sprintf("The cluster at %s, with the UID %q, does not answer by the connection from before, or its agent "+
			"could not be removed. The hub stops serving an agent that still runs there once the new one "+
			"has joined.", was.Host, was.UID))
}
