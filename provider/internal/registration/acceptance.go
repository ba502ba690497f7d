package registration

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

var (
	_ resource.ResourceWithConfigure   = (*clusterAcceptanceResource)(nil)
	_ resource.ResourceWithImportState = (*clusterAcceptanceResource)(nil)
	_ resource.ResourceWithIdentity    = (*clusterAcceptanceResource)(nil)
	_ resource.ResourceWithModifyPlan  = (*clusterAcceptanceResource)(nil)
)

const defaultAcceptance = 10 * time.Minute

type clusterAcceptanceResource struct{ crud.Resource }

type clusterAcceptanceModel struct {
	ManagedCluster types.String   `tfsdk:"managed_cluster"`
	Accepted       types.Bool     `tfsdk:"accepted"`
	ApproveCSR     types.Bool     `tfsdk:"approve_csr"`
	ApproveCSRName types.String   `tfsdk:"approve_csr_name"`
	Requesters     types.List     `tfsdk:"requesters"`
	Adopt          types.Bool     `tfsdk:"adopt"`
	ForceConflicts types.Bool     `tfsdk:"force_conflicts"`
	Timeouts       timeouts.Value `tfsdk:"timeouts"`
}

// NewAcceptance is muster_cluster_acceptance.
func NewAcceptance() resource.Resource { return &clusterAcceptanceResource{} }

func (r *clusterAcceptanceResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_cluster_acceptance"
}

func (r *clusterAcceptanceResource) IdentitySchema(_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse) {
	resp.IdentitySchema = attribute.IdentitySchema("managed_cluster")
}

func (r *clusterAcceptanceResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Accepts a cluster into the fleet: sets `hubAcceptsClient` on its ManagedCluster, waits until the hub has given the agent its namespace and rights, " +
			"and, where the hub does not do that by itself, approves the agent's first certificate request.\n\n" +
			"A muster hub approves by itself what comes with a bootstrap token bound to the cluster (see the ephemeral resource `muster_bootstrap_kubeconfig`), so there a cluster is best accepted before its agent is installed. " +
			"On an upstream hub, creating this resource waits until the agent's request arrives; install the agent in the meantime, and do not make the installation depend on the acceptance.\n\n" +
			"Destroying it denies the cluster: the agent loses its rights, and what runs in the cluster keeps running. " +
			"An acceptance that another Terraform resource has taken over is left alone.",
		Attributes: map[string]schema.Attribute{
			"managed_cluster": attribute.Identifying("Name of the managed cluster. It has to exist, or to be registered by its agent before the timeout.",
				attribute.ValidClusterName()),
			"accepted": schema.BoolAttribute{
				MarkdownDescription: "Whether the hub accepts the cluster. `false` denies it and keeps it denied. Defaults to `true`.",
				Optional:            true, Computed: true, Default: booldefault.StaticBool(true),
			},
			"approve_csr": schema.BoolAttribute{
				MarkdownDescription: "Whether to wait for the agent's first certificate request and approve it. " +
					"If omitted, this is done on hubs that do not approve requests of bound bootstrap tokens themselves, that is on upstream hubs. " +
					"A cluster that has joined needs no approval. Exactly one request is approved: several pending requests with different keys or requesters are an error.",
				Optional: true,
			},
			"approve_csr_name": schema.StringAttribute{
				MarkdownDescription: "Name of the one certificate request to approve, for when several wait. It has to be one of this cluster, from an allowed requester.",
				Optional:            true,
				Validators:          []validator.String{stringvalidator.LengthAtLeast(1)},
			},
			"requesters": schema.ListAttribute{
				MarkdownDescription: "Further user names whose certificate requests may be approved, beside bootstrap tokens and the bootstrap service account.",
				Optional:            true,
				ElementType:         types.StringType,
			},
			"adopt": schema.BoolAttribute{
				MarkdownDescription: "Whether to take the decision over from another Terraform resource that has made another one, or that has taken this one over in the meantime. " +
					"If omitted or `false`, that is an error. A decision of another resource that says the same is taken over with a warning, and one of a person or an agent without.",
				Optional: true,
			},
			"force_conflicts": attribute.ForceAttribute(),
		},
		Blocks: map[string]schema.Block{
			"timeouts": timeouts.Block(ctx, timeouts.Opts{
				Create: true, CreateDescription: attribute.TimeoutText("accepting, with the wait for cluster and certificate request,", defaultAcceptance),
				Update: true, UpdateDescription: attribute.TimeoutText("accepting again", defaultAcceptance),
				Delete: true, DeleteDescription: attribute.TimeoutText("denying", defaultAcceptance),
			}),
		},
	}
}

func (r *clusterAcceptanceResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan clusterAcceptanceModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	timeout, diags := plan.Timeouts.Create(ctx, defaultAcceptance)
	resp.Diagnostics.Append(diags...)
	// Saved before the wait: an interruption must not lose the acceptance.
	a := acceptance{model: plan, timeout: timeout, creating: true}
	r.carryOut(ctx, &a, &resp.Diagnostics, func() {
		crud.KeepClaim(ctx, resp.Private, a.claim, &resp.Diagnostics)
		crud.Save(ctx, &plan, &resp.State, resp.Identity, &resp.Diagnostics)
	})
}

// carryOut writes the decision about the cluster, calls written, and waits for the
// effects. It reports whether the decision was written.
func (r *clusterAcceptanceResource) carryOut(ctx context.Context, a *acceptance, diags *diag.Diagnostics, written func()) bool {
	a.hub, a.client = r.Hub, r.Hub.WriteClient(diags)
	if diags.HasError() {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	object := a.decide(ctx, diags)
	if object == nil {
		return false
	}
	written()
	a.follow(ctx, object, diags)
	return true
}

func (r *clusterAcceptanceResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state clusterAcceptanceModel
	object := &clusterv1.ManagedCluster{}
	r.Refresh(ctx, req, resp, &state, object, func() error {
		r.recognize(ctx, object, state.What(), req.Private, &resp.Diagnostics)
		state.Accepted = types.BoolValue(object.Spec.AcceptsClient())
		return nil
	})
}

func (r *clusterAcceptanceResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan clusterAcceptanceModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	timeout, diags := plan.Timeouts.Update(ctx, defaultAcceptance)
	resp.Diagnostics.Append(diags...)
	a := acceptance{model: plan, timeout: timeout, claim: crud.ClaimOf(ctx, req.Private, &resp.Diagnostics)}
	if r.carryOut(ctx, &a, &resp.Diagnostics, func() { crud.KeepClaim(ctx, resp.Private, a.claim, &resp.Diagnostics) }) {
		crud.Save(ctx, &plan, &resp.State, resp.Identity, &resp.Diagnostics)
	}
}

// Delete denies the cluster and does not wait for the consequences: the hub
// keeps a denied agent's rights to works until these are gone, which may be
// never when the cluster is.
func (r *clusterAcceptanceResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state clusterAcceptanceModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	timeout, diags := state.Timeouts.Delete(ctx, defaultAcceptance)
	resp.Diagnostics.Append(diags...)
	client := r.Hub.WriteClient(&resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r.deny(ctx, client, &state, req.Private, &resp.Diagnostics)
}

func (r *clusterAcceptanceResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	object := &clusterv1.ManagedCluster{}
	named := func(names []string) crud.Model {
		return &clusterAcceptanceModel{ManagedCluster: types.StringValue(names[0])}
	}
	adopt := func() (crud.Model, error) { return importAcceptance(object), nil }
	if state := r.Imported(ctx, req, resp, []string{"managed_cluster"}, object, named, adopt); state != nil {
		crud.KeepClaim(ctx, resp.Private, importedAcceptance(object), &resp.Diagnostics)
		crud.Save(ctx, state, &resp.State, resp.Identity, &resp.Diagnostics)
	}
}

func importAcceptance(object *clusterv1.ManagedCluster) *clusterAcceptanceModel {
	return &clusterAcceptanceModel{
		ManagedCluster: types.StringValue(object.Name),
		Accepted:       types.BoolValue(object.Spec.AcceptsClient()),
		Requesters:     types.ListNull(types.StringType),
		Timeouts:       attribute.NullTimeouts("create", "update", "delete"),
	}
}

// What implements crud.Model.
func (m *clusterAcceptanceModel) What() string {
	return fmt.Sprintf("the acceptance of managed cluster %q", m.ManagedCluster.ValueString())
}

// Key implements crud.Model.
func (m *clusterAcceptanceModel) Key() (namespace, name string) {
	return "", m.ManagedCluster.ValueString()
}

// Identity implements crud.Model.
func (m *clusterAcceptanceModel) Identity() any {
	return attribute.ClusterIdentity{ManagedCluster: m.ManagedCluster}
}
