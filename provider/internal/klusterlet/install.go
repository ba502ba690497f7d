package klusterlet

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/internal/klusterlet"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
)

// What muster_klusterlet does about a cluster in which the agent can't be installed.
const (
	onFailureFail     = "fail"
	onFailureContinue = "continue"
)

// Create installs the agent. An error before the state is kept leaves nothing tainted,
// and applying again goes on where this one ended.
func (r *klusterletResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	in := r.installation(ctx, req.Plan, req.Config, resp.Private, &resp.Diagnostics)
	timeout, diags := in.plan.limits().Create(ctx, defaultInstall)
	resp.Diagnostics.Append(diags...)
	in.creates = true
	if in.attempt(ctx, timeout) {
		resp.Diagnostics.Append(resp.State.Set(ctx, in.plan.object())...)
		resp.Diagnostics.Append(resp.Identity.Set(ctx, in.plan.identity())...)
	}
}

// Update changes the agent, if the plan takes anything in its cluster.
func (r *klusterletResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	in := r.installation(ctx, req.Plan, req.Config, resp.Private, &resp.Diagnostics)
	timeout, diags := in.plan.limits().Update(ctx, defaultInstall)
	resp.Diagnostics.Append(diags...)
	in.state, in.was = modelOf(ctx, req.State, &resp.Diagnostics), placeIn(ctx, req.Private, &resp.Diagnostics)
	if in.state.failed() {
		// The bootstrap kubeconfig of the attempt that failed may not have arrived.
		in.state.Values["bootstrap_kubeconfig_wo_version"] = types.Int64Null()
	}
	if in.attempt(ctx, timeout) {
		resp.Diagnostics.Append(resp.State.Set(ctx, in.plan.object())...)
		resp.Diagnostics.Append(resp.Identity.Set(ctx, in.plan.identity())...)
	}
}

// installation puts an agent into its cluster.
type installation struct {
	*agent
	resource *klusterletResource
	joining  *joining
	// plan becomes the state. state is that from before; empty in a creation.
	plan, config, state model
	creates             bool
	timeout             time.Duration
	private             crud.PrivateWriter
	diags               *diag.Diagnostics

	// was is where the agent was before, and found where it is now.
	was, found place
	seen       observation
	// kubeconfig is the bootstrap kubeconfig that the agent gets; empty when it keeps what
	// it has. issued is the credential in it, if the provider made it.
	kubeconfig []byte
	issued     *registration.Issued
	// renew asks for another one although the one in place may do.
	renew bool
	// approve says that the agent's request has to be approved from here.
	approve bool
	// hindered is why the agent may not be let in again.
	hindered error
	// offline says that the cluster does not answer at an address at which it did before.
	offline bool
}

func (r *klusterletResource) installation(
	ctx context.Context, plan tfsdk.Plan, config tfsdk.Config, private crud.PrivateWriter, diags *diag.Diagnostics,
) *installation {
	in := &installation{resource: r, private: private, diags: diags}
	in.plan, in.config = modelOf(ctx, plan, diags), modelOf(ctx, config, diags)
	return in
}

// attempt installs or changes the agent, and reports whether the plan is to be saved.
// Terraform stops everything that depends on any instance of a resource when one instance
// fails, so an error in one cluster would hold up all others of a fleet: where the plan
// says to continue, an error becomes a warning, and the state is as planned but for the
// problem.
func (in *installation) attempt(ctx context.Context, timeout time.Duration) (saved bool) {
	reached := !in.diags.HasError() && in.run(ctx, timeout)
	failed, reasons := in.diags.HasError(), []string{}
	if failed {
		if !in.plan.continues() {
			return reached
		}
		*in.diags, reasons = warned(*in.diags)
	}
	values := in.plan.Values
	values["problems"], values["offline"] = attribute.StringListValue(reasons), types.BoolValue(in.offline)
	if failed || values["installed"].IsUnknown() {
		values["installed"] = types.BoolValue(reached)
	}
	if !reached {
		values["joined"] = types.BoolValue(in.state.Bool("joined"))
	}
	for name, value := range values {
		if value.IsUnknown() {
			values[name] = attribute.Null(in.plan.kinds[name])
		}
	}
	return true
}

// warned are the diagnostics with all errors made warnings, and what these say.
func warned(diags diag.Diagnostics) (warnings diag.Diagnostics, reasons []string) {
	for _, d := range diags {
		if d.Severity() != diag.SeverityError {
			warnings = append(warnings, d)
			continue
		}
		reasons = append(reasons, fmt.Sprintf("%s: %s", d.Summary(), d.Detail()))
		warnings.AddWarning(d.Summary(), d.Detail()+"\n\nThe apply continues with everything else, and the next "+
			"apply tries this again (on_failure = \"continue\").")
	}
	return warnings, reasons
}

// run reports whether the cluster has the agent's objects by now. A wait that fails after
// that is an error, save for a creation that fails on errors: an error would taint it.
func (in *installation) run(ctx context.Context, timeout time.Duration) (reached bool) {
	plan := in.plan.Values
	open := plan["cluster_uid"].IsUnknown() || plan["ready"].IsUnknown()
	if !in.creates && !open && !in.plan.touchesCluster(in.state) {
		// Only Terraform's own settings change, so a cluster that is away is no
		// reason to fail.
		if plan["joined"].IsUnknown() {
			plan["joined"] = in.state.Values["joined"]
		}
		return true
	}
	in.agent = in.resource.agent(in.plan, kube.DefaultRetryBudget, in.diags)
	if in.diags.HasError() {
		return false
	}
	in.joining, in.timeout = in.resource.joining(in.name), timeout
	in.kubeconfig = []byte(in.config.Text("bootstrap_kubeconfig_wo"))
	in.renew = in.creates && in.config.ownsKubeconfig() || !in.creates && in.plan.renewsBootstrap(in.state)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if !in.begin(ctx) {
		return false
	}
	if in.was.UID != "" && in.was.UID != in.found.UID && in.was.Host != in.found.Host {
		in.leave(ctx)
	}
	if !in.install(ctx) {
		return false
	}
	summary, detail := in.finish(ctx)
	switch {
	case summary == "":
	case in.creates && !in.plan.continues():
		in.diags.AddWarning(summary, detail)
	default:
		in.diags.AddError(summary, detail)
	}
	in.found.keep(ctx, in.private, in.diags)
	return true
}

// begin looks at the cluster and refuses one that is not the right one, or has
// an agent by another name.
func (in *installation) begin(ctx context.Context) bool {
	var err error
	diags, a := in.diags, in.agent
	doing := fmt.Sprintf("install the agent in cluster %q", a.name)
	in.seen, in.found, err = a.visit(ctx)
	if leaving := in.seen.leaving; err == nil && leaving != nil {
		err = a.client.WaitGone(ctx, leaving, "", leaving.Name, leaving.UID)
		if hub.IsTimeout(err) {
			diags.AddError("Cannot "+doing, fmt.Sprintf("Its namespace %s is still being deleted after %s.\n%s",
				leaving.Name, in.timeout, hub.DescribeDeletion(leaving, time.Now())))
			return false
		}
		if err == nil {
			in.seen, err = a.look(ctx)
		}
	}
	if err != nil {
		in.offline = in.was.Host == a.client.Host() && kube.IsAway(err)
		hub.AddAPIError(diags, a.client, doing, err)
		return false
	}
	if !checkPlace(a.name, in.was, in.found, in.config, diags) {
		return false
	}
	if a.makesKubeconfig() && in.joining.strayed(ctx, a, in.seen) != "" {
		in.seen.certified = false
	}
	return in.isOwn() && in.isUnrivalled(ctx)
}

// isOwn refuses a cluster with the agent of another name, or of a hub that installs the
// agent itself, with which Terraform would take turns.
func (in *installation) isOwn() bool {
	a, deployment := in.agent, in.seen.deployment
	if other := klusterlet.Serves(deployment); other != "" && other != a.name {
		in.diags.AddAttributeError(path.Root("cluster_connection"),
			fmt.Sprintf("The cluster at %s has an agent of another name", in.found.Host),
			fmt.Sprintf("The Deployment %s in the namespace %s serves the cluster %q, and not %q. One cluster joins "+
				"a hub once. Correct cluster_connection or cluster_name, or remove the other agent first, with the "+
				"resource that installed it, or with kubectl delete namespace %s.",
				deployment.Name, a.options.Namespace, other, a.name, a.options.Namespace))
		return false
	}
	if klusterlet.InstalledBy(deployment) != muster.InstalledByImport {
		return true
	}
	in.diags.AddAttributeError(path.Root("cluster_connection"),
		fmt.Sprintf("The agent in cluster %q is installed by its hub", a.name),
		fmt.Sprintf("In the cluster at %s a ClusterImport of the hub has installed the agent, by the annotation %s "+
			"of the Deployment %s/%s. It and Terraform would take turns in changing it. Remove this resource; or "+
			"delete the ClusterImport %s on the hub, which leaves the agent in place, and let Terraform take it over: "+
			"kubectl -n %s annotate deployment %s %s-", in.found.Host, muster.InstalledByAnnotation,
			a.options.Namespace, klusterlet.Name, a.name, a.options.Namespace, klusterlet.Name,
			muster.InstalledByAnnotation))
	return false
}

// isUnrivalled refuses to give a name to a new cluster while the hub hears of another one
// that has it.
func (in *installation) isUnrivalled(ctx context.Context) bool {
	if !in.creates || in.config.IsSet("cluster_uid") {
		return true
	}
	other, ok := elsewhere(in.joining.cluster(ctx), in.found.UID)
	if !ok {
		return true
	}
	in.diags.AddAttributeError(path.Root("cluster_name"), fmt.Sprintf("Another cluster is called %q", in.name),
		fmt.Sprintf("The hub has an available cluster %q whose namespace kube-system has the UID %q, and the cluster "+
			"at %s has %q. Installing the agent would take the name away from that cluster. Give this cluster a name "+
			"of its own; or, if it replaces the other one, set cluster_uid = %q.",
			in.name, other, in.found.Host, in.found.UID, in.found.UID))
	return false
}

// needsBootstrap reports whether the agent needs another bootstrap kubeconfig than the
// one that it has. A cluster that is certified and complete needs none: writing another
// one restarts the agent's registration.
func (in *installation) needsBootstrap() bool {
	switch seen := in.seen; {
	case !in.keepsBootstrap():
		return false
	case in.renew:
		return true
	case !seen.bootstrap:
		return !seen.deletes || !seen.certified
	case in.makesKubeconfig() && !in.insists() && seen.foreign:
		return false
	default:
		return !seen.certified || seen.foreign
	}
}

// prepare gets the bootstrap kubeconfig, if the agent needs one.
func (in *installation) prepare(ctx context.Context) bool {
	if !in.needsBootstrap() {
		in.kubeconfig = nil
		return true
	}
	if in.ownsKubeconfig() {
		if len(in.kubeconfig) == 0 {
			needsKubeconfig(in.name, in.diags)
		}
		return len(in.kubeconfig) > 0
	}
	doing, of := fmt.Sprintf("make a bootstrap kubeconfig for cluster %q", in.name), in.resource.Hub
	client := of.Client(in.diags)
	if client == nil {
		in.diags.AddAttributeError(path.Root("bootstrap"), "Cannot "+doing,
			"The provider makes it on its hub. Configure the hub, bring a kubeconfig of your own with "+
				"bootstrap_kubeconfig_wo, or set bootstrap = { enabled = false } where its Secret comes from "+
				"elsewhere.")
		return false
	}
	issued, err := in.bootstrap(in.found.UID).Issue(ctx, of, client, in.diags)
	if err != nil {
		hub.AddAPIError(in.diags, client, doing, err)
		return false
	}
	in.issued, in.kubeconfig = &issued, issued.Kubeconfig
	return true
}

func needsKubeconfig(name string, diags *diag.Diagnostics) {
	diags.AddAttributeError(path.Root("bootstrap_kubeconfig_wo"),
		fmt.Sprintf("The agent of cluster %q needs a bootstrap kubeconfig", name),
		"bootstrap_kubeconfig_wo_version is set, and bootstrap_kubeconfig_wo is not. Set it, or leave both out, and "+
			"the provider makes one.")
}

// install applies the agent's objects, with a bootstrap kubeconfig if it needs one.
func (in *installation) install(ctx context.Context) bool {
	if !in.prepare(ctx) {
		return false
	}
	record := in.joining.cluster(ctx)
	if len(in.kubeconfig) > 0 && !in.seen.certified && record != nil && record.HasAgent() {
		in.approve, in.hindered = in.joining.allow(ctx, bearerOf(in.kubeconfig))
	}
	if doing, err := in.write(ctx); err != nil {
		hub.AddAPIError(in.diags, in.client, doing+fmt.Sprintf(" cluster %q", in.name), err)
		in.settle(ctx)
		return false
	}
	in.joining.note(ctx, record, in.found.UID)
	return true
}

// write brings the objects into the cluster. doing is what failed.
func (in *installation) write(ctx context.Context) (doing string, err error) {
	for _, object := range in.seen.added {
		if err := in.restore(ctx, object, in.diags); err != nil {
			return "remove what was added to " + nameOf(object) + " in", err
		}
	}
	for _, object := range in.objects(in.kubeconfig) {
		if err := in.apply(ctx, object); err != nil {
			return "install " + nameOf(object) + " in", err
		}
	}
	for _, object := range in.seen.obsolete {
		namespace, name := object.GetNamespace(), object.GetName()
		if err := in.client.DeleteAndWait(ctx, kube.Fresh(object), namespace, name); err != nil {
			return "remove " + nameOf(object) + " from", err
		}
	}
	return "", nil
}

// finish waits for the agent if the plan says so, and completes the plan. A
// summary is the summary of a wait that failed.
func (in *installation) finish(ctx context.Context) (summary, detail string) {
	plan := in.plan.Values
	plan["cluster_uid"], plan["ready"] = types.StringValue(in.found.UID), types.BoolNull()
	plan["joined"], plan["offline"] = types.BoolValue(in.seen.certified), types.BoolValue(false)
	if !in.plan.Bool("wait_for_bootstrap") {
		return "", ""
	}
	err := in.await(ctx)
	plan["ready"] = types.BoolValue(err == nil)
	if err == nil {
		plan["joined"] = types.BoolValue(true)
		in.settle(ctx)
		return "", ""
	}
	summary, detail = in.explainWait(ctx, in.joining, err, in.timeout)
	server := cmp.Or(endpointOf(in.kubeconfig).Server, in.seen.server)
	if hub.IsTimeout(err) && !in.seen.certified && server != "" {
		detail += fmt.Sprintf("\nThe agent has to reach the hub at %s from inside the cluster. If that is another "+
			"address there, set bootstrap = { server = … } (hub_server in the module fleet-onboarding); behind a "+
			"proxy, env = { HTTPS_PROXY = … }; and for a server with a certificate of another authority, "+
			"bootstrap = { cluster_ca_certificate = … }.", server)
	}
	if in.issued != nil {
		detail += fmt.Sprintf("\n\nThe agent can join by itself until %s, when its bootstrap token expires. The next "+
			"apply makes another one if need be.", in.issued.Expires.UTC().Format(time.RFC3339))
	}
	if in.hindered != nil {
		detail += "\n\nCould not allow the cluster to join the hub again: " + in.hindered.Error()
	}
	return summary, detail
}

// settle revokes the credential that was made, which the agent needs no more, with those
// that earlier runs have left.
func (in *installation) settle(ctx context.Context) {
	if in.issued == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hub.PreviewTimeout)
	defer cancel()
	client := in.joining.client
	if err := in.issued.Revoke(ctx, client); err != nil {
		in.diags.AddWarning(fmt.Sprintf("The bootstrap token of cluster %q was not revoked", in.name),
			fmt.Sprintf("%s It expires at %s.", hub.Explain(client.Host(), "revoke it", err),
				in.issued.Expires.UTC().Format(time.RFC3339)))
		return
	}
	in.bootstrap(in.found.UID).RevokeLeftOver(ctx, client, time.Now())
}

// leave removes the agent from the cluster that had the name before, if that
// still answers. Its works are not waited for: they go on in the other cluster.
func (in *installation) leave(ctx context.Context) {
	var problems diag.Diagnostics
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if before := in.resource.agent(in.state, hub.ReadBudget, &problems); before != nil {
		if found, err := before.place(ctx); err == nil && found.UID == in.was.UID {
			before.remove(ctx, time.Minute, &problems)
			if !problems.HasError() {
				return
			}
		}
	}
	in.diags.AddWarning(fmt.Sprintf("The agent was not removed from the cluster that was %q before", in.name),
		fmt.Sprintf("The cluster at %s, with the UID %q, does not answer by the connection from before, or its agent "+
			"could not be removed. The hub stops serving an agent that still runs there once the new one "+
			"has joined.", in.was.Host, in.was.UID))
}
