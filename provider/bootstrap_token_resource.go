package provider

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
)

var (
	_ resource.ResourceWithConfigure   = (*bootstrapTokenResource)(nil)
	_ resource.ResourceWithImportState = (*bootstrapTokenResource)(nil)
	_ resource.ResourceWithIdentity    = (*bootstrapTokenResource)(nil)
	_ resource.ResourceWithModifyPlan  = (*bootstrapTokenResource)(nil)
)

type bootstrapTokenResource struct{ hubResource }

type bootstrapTokenModel struct {
	ManagedCluster types.String `tfsdk:"managed_cluster"`
	Description    types.String `tfsdk:"description"`
	TTL            types.String `tfsdk:"ttl"`
	TokenID        types.String `tfsdk:"token_id"`
	Token          types.String `tfsdk:"token"`
	ExpiresAt      types.String `tfsdk:"expires_at"`
}

type tokenIdentity struct {
	TokenID types.String `tfsdk:"token_id"`
}

func newBootstrapTokenResource() resource.Resource { return &bootstrapTokenResource{} }

func (r *bootstrapTokenResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_bootstrap_token"
}

func (r *bootstrapTokenResource) IdentitySchema(_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse) {
	resp.IdentitySchema = identitySchema("token_id")
}

func (r *bootstrapTokenResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "A bootstrap token that outlives the Terraform run, for agents that are installed by other means: a golden image, a GitOps tool, `clusteradm join`.\n\n" +
			"~> The token is kept in the state. Where Terraform installs the agent, prefer the ephemeral resource `muster_bootstrap_kubeconfig`, which leaves no trace.",
		Attributes: map[string]schema.Attribute{
			"managed_cluster": schema.StringAttribute{
				MarkdownDescription: "Name of the cluster that the token is bound to: a muster hub lets it register that cluster and no other. Left out, it can register any cluster. Changing it makes a new token.",
				Optional:            true,
				PlanModifiers:       []planmodifier.String{stringplanmodifier.RequiresReplace()},
				Validators:          []validator.String{nameValidator{"cluster name"}},
			},
			"description": schema.StringAttribute{
				MarkdownDescription: "What the token is for, for people who find it on the hub.",
				Optional:            true,
			},
			"ttl": schema.StringAttribute{
				MarkdownDescription: "How long the token is valid, counted from when it is made or this is changed, such as `24h`; at least `1m`. " +
					"The hub removes an expired token, and the next apply makes another. Left out, the token does not expire.",
				Optional:   true,
				Validators: []validator.String{durationValidator{minimumBootstrapTTL}},
			},
			"token_id": schema.StringAttribute{
				MarkdownDescription: "The token's public half, by which it is named on the hub.",
				Computed:            true,
				PlanModifiers:       []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
			},
			"token": schema.StringAttribute{
				MarkdownDescription: "The token.",
				Computed:            true, Sensitive: true,
				PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
			},
			"expires_at": schema.StringAttribute{
				MarkdownDescription: "When the token expires, in RFC 3339; null when it does not.",
				Computed:            true,
				PlanModifiers:       []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
			},
		},
	}
}

// ModifyPlan lets a new lifetime bring a new expiry.
func (r *bootstrapTokenResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.State.Raw.IsNull() || req.Plan.Raw.IsNull() {
		return
	}
	var plan, state bootstrapTokenModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() || plan.TTL.Equal(state.TTL) {
		return
	}
	plan.ExpiresAt = types.StringUnknown()
	if plan.TTL.IsNull() {
		plan.ExpiresAt = types.StringNull()
	}
	resp.Diagnostics.Append(resp.Plan.Set(ctx, &plan)...)
}

func (r *bootstrapTokenResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan bootstrapTokenModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	client := r.hub.client(&resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	const doing = "make a bootstrap token"
	groups, err := r.hub.tokenGroups(ctx, client, plan.ManagedCluster.ValueString(), &resp.Diagnostics)
	if err != nil {
		addAPIError(&resp.Diagnostics, client, doing, err)
		return
	}
	token, err := newBootstrapToken(plan.ManagedCluster.ValueString(), groups, plan.Description.ValueString())
	if err != nil {
		addAPIError(&resp.Diagnostics, client, doing, err)
		return
	}
	token.live(plan.TTL)
	if err := client.Apply(ctx, token.object(), kube.ApplyOptions{Manager: fieldManager}); err != nil {
		addAPIError(&resp.Diagnostics, client, doing, err)
		return
	}
	plan.TokenID = types.StringValue(token.ID)
	plan.Token = types.StringValue(token.String())
	plan.ExpiresAt = token.expiresAt()
	resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, tokenIdentity{plan.TokenID})...)
}

func (r *bootstrapTokenResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state bootstrapTokenModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, tokenIdentity{state.TokenID})...)
	if resp.Diagnostics.HasError() || r.skipRead(&resp.Diagnostics) {
		return
	}
	client := r.hub.client(&resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	id := state.TokenID.ValueString()
	secret := &corev1.Secret{}
	if err := client.Get(ctx, secret, metav1.NamespaceSystem, tokenSecretName(id)); kube.IsNotFound(err, tokenSecretName(id)) {
		resp.State.RemoveResource(ctx)
		return
	} else if err != nil {
		addAPIError(&resp.Diagnostics, client, fmt.Sprintf("read the bootstrap token %q", id), err)
		return
	}
	token := tokenOf(secret)
	if !state.Description.IsNull() {
		state.Description = optionalString(token.Description)
	}
	state.Token = types.StringValue(token.String())
	state.ExpiresAt = token.expiresAt()
	resp.Diagnostics.Append(resp.State.Set(ctx, &state)...)
}

func (r *bootstrapTokenResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan, state bootstrapTokenModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	client := r.hub.client(&resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	id := state.TokenID.ValueString()
	doing := fmt.Sprintf("update the bootstrap token %q", id)
	secret := &corev1.Secret{}
	if err := client.Get(ctx, secret, metav1.NamespaceSystem, tokenSecretName(id)); err != nil {
		addAPIError(&resp.Diagnostics, client, doing, err)
		return
	}
	token := tokenOf(secret)
	token.Description = plan.Description.ValueString()
	if !plan.TTL.Equal(state.TTL) {
		token.live(plan.TTL)
	}
	object := token.object()
	object.UID = secret.UID
	if err := client.Apply(ctx, object, kube.ApplyOptions{Manager: fieldManager, Force: true}); err != nil {
		addAPIError(&resp.Diagnostics, client, doing, err)
		return
	}
	plan.ExpiresAt = token.expiresAt()
	resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, tokenIdentity{plan.TokenID})...)
}

func (r *bootstrapTokenResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state bootstrapTokenModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	client := r.hub.client(&resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	id := state.TokenID.ValueString()
	if _, err := client.Delete(ctx, &corev1.Secret{}, metav1.NamespaceSystem, tokenSecretName(id), ""); err != nil {
		addAPIError(&resp.Diagnostics, client, fmt.Sprintf("revoke the bootstrap token %q", id), err)
	}
}

func (r *bootstrapTokenResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	names := importedNames(ctx, req, &resp.Diagnostics, "token_id")
	client := r.hub.client(&resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	secret := &corev1.Secret{}
	if err := client.Get(ctx, secret, metav1.NamespaceSystem, tokenSecretName(names[0])); err != nil {
		addAPIError(&resp.Diagnostics, client, fmt.Sprintf("import the bootstrap token %q", names[0]), err)
		return
	}
	token := tokenOf(secret)
	state := bootstrapTokenModel{
		ManagedCluster: optionalString(token.Cluster),
		Description:    optionalString(token.Description),
		TTL:            optionalString(token.TTL),
		TokenID:        types.StringValue(token.ID),
		Token:          types.StringValue(token.String()),
		ExpiresAt:      token.expiresAt(),
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &state)...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, tokenIdentity{state.TokenID})...)
}

// live starts the token's lifetime now.
func (t *bootstrapToken) live(ttl types.String) {
	t.TTL, t.Expires = ttl.ValueString(), time.Time{}
	if lifetime, err := time.ParseDuration(t.TTL); err == nil {
		t.Expires = time.Now().Add(lifetime)
	}
}

func (t *bootstrapToken) expiresAt() types.String {
	if t.Expires.IsZero() {
		return types.StringNull()
	}
	return types.StringValue(t.Expires.UTC().Format(time.RFC3339))
}
