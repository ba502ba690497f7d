package registration

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/listplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/setplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

var (
	_ resource.ResourceWithConfigure   = (*bootstrapTokenResource)(nil)
	_ resource.ResourceWithImportState = (*bootstrapTokenResource)(nil)
	_ resource.ResourceWithIdentity    = (*bootstrapTokenResource)(nil)
	_ resource.ResourceWithModifyPlan  = (*bootstrapTokenResource)(nil)
)

type bootstrapTokenResource struct{ crud.Resource }

// NewToken is muster_bootstrap_token.
func NewToken() resource.Resource { return &bootstrapTokenResource{} }

func (r *bootstrapTokenResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_bootstrap_token"
}

func (r *bootstrapTokenResource) IdentitySchema(_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse) {
	resp.IdentitySchema = attribute.IdentitySchema("token_id")
}

func (r *bootstrapTokenResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "A bootstrap token that outlives the Terraform run, for agents that are installed by other means: a golden image, a GitOps tool, `clusteradm join`.\n\n" +
			"Destroying it revokes the token: the hub refuses it at once, and a muster hub deletes the undecided certificate requests that were made with it. " +
			"Clusters that have joined stay. `terraform apply -replace` rotates it.\n\n" +
			"~> The token is kept in the state. Where Terraform installs the agent, prefer the ephemeral resource `muster_bootstrap_kubeconfig`, which is in no state.",
		Attributes: tokenAttributes(),
	}
}

// tokenAttributes are the arguments and results of the resource.
func tokenAttributes() map[string]schema.Attribute {
	attributes := map[string]schema.Attribute{
		"managed_cluster": schema.StringAttribute{
			MarkdownDescription: "Name of the cluster that the token is bound to: a muster hub lets it register that cluster and no other. Without it and `managed_clusters`, it can register any cluster. Changing it replaces the token.",
			Optional:            true,
			PlanModifiers:       []planmodifier.String{stringplanmodifier.RequiresReplace()},
			Validators:          []validator.String{attribute.ValidClusterName(), stringvalidator.ConflictsWith(path.MatchRoot("managed_clusters"))},
		},
		"managed_clusters": schema.SetAttribute{
			MarkdownDescription: "Names of the clusters that the token is bound to, if there are several. Changing them replaces the token.",
			Optional:            true,
			ElementType:         types.StringType,
			PlanModifiers:       []planmodifier.Set{setplanmodifier.RequiresReplace()},
			Validators:          []validator.Set{setvalidator.SizeAtLeast(1), setvalidator.ValueStringsAre(attribute.ValidClusterName())},
		},
		"cluster_labels": schema.MapAttribute{
			MarkdownDescription: "Labels that the hub puts on every ManagedCluster that is created with the token. " +
				"With `" + cluster.ClusterSetLabel + "` its clusters join a cluster set. A cluster with another value for one of them is refused. Needs a muster hub.",
			Optional:    true,
			ElementType: types.StringType,
			Validators:  []validator.Map{attribute.ValidLabels(nil), mapvalidator.SizeAtLeast(1)},
		},
		"max_clusters": schema.Int64Attribute{
			MarkdownDescription: fmt.Sprintf("How many clusters may be registered with the token, 1 to %d. The hub refuses further ones; a cluster counts once, however often it tries. If omitted, there is no limit. Needs a muster hub.", cluster.MaxTokenClusters),
			Optional:            true,
			Validators:          []validator.Int64{int64validator.Between(1, cluster.MaxTokenClusters)},
		},
		"client_ids": schema.SetAttribute{
			MarkdownDescription: "Client IDs that agents may register by with the token, and no others; it is good for the clusters of these IDs only. " +
				"It proves that an agent may take over a `muster_managed_cluster` with one of them as `client_id`, whose first certificate request the hub approves by itself once the cluster is accepted. Needs a muster hub.",
			Optional:    true,
			ElementType: types.StringType,
			Validators:  []validator.Set{setvalidator.SizeBetween(1, cluster.MaxTokenClientIDs), setvalidator.ValueStringsAre(attribute.ValidClientID())},
		},
		"allowed_labels": schema.SetAttribute{
			MarkdownDescription: "Keys of labels that agents may choose with `--registration-label` when the hub creates their ManagedCluster. " +
				"A key that ends with `*`, such as `team.example.com/*`, stands for all that begin like it. Labels of Kubernetes, Open Cluster Management and muster can't be allowed. Needs a muster hub.",
			Optional:    true,
			ElementType: types.StringType,
			Validators:  []validator.Set{setvalidator.SizeAtLeast(1), setvalidator.ValueStringsAre(attribute.ValidAllowedLabel())},
		},
		"description": schema.StringAttribute{
			MarkdownDescription: "Description of the token, for people who find it on the hub.",
			Optional:            true,
		},
		"ttl": schema.StringAttribute{
			MarkdownDescription: "How long the token is valid, counted from its creation or from the last change of this value, such as `24h`; at least `1m`. " +
				"The hub removes an expired token, and the next apply creates another. If omitted, the token does not expire. Clusters that have joined no longer need it.",
			Optional:   true,
			Validators: []validator.String{attribute.ValidDuration(minimumBootstrapTTL)},
		},
	}
	maps.Copy(attributes, tokenResults())
	return attributes
}

// tokenResults are what comes of a token.
func tokenResults() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"token_id": schema.StringAttribute{
			MarkdownDescription: "The public half of the token, which names it on the hub.",
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
		"used_by": schema.ListAttribute{
			MarkdownDescription: fmt.Sprintf("Names of the clusters that were registered with the token, in alphabetical order; the first %d. Empty on an upstream hub, which does not count.", cluster.MaxTokenClusters),
			Computed:            true,
			ElementType:         types.StringType,
			PlanModifiers:       []planmodifier.List{listplanmodifier.UseStateForUnknown()},
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
	if used := len(state.UsedBy.Elements()); !plan.MaxClusters.IsNull() && !plan.MaxClusters.IsUnknown() && plan.MaxClusters.ValueInt64() < int64(used) {
		resp.Diagnostics.AddAttributeError(path.Root("max_clusters"), "The bootstrap token is used by more clusters already",
			fmt.Sprintf("max_clusters is %d, and %d clusters were registered with the token %q: %s. Use %d or more, or make another token and destroy this one.",
				plan.MaxClusters.ValueInt64(), used, state.TokenID.ValueString(), strings.Join(attribute.StringList(state.UsedBy), ", "), used))
	}
	if resp.Diagnostics.HasError() || plan.TTL.Equal(state.TTL) {
		return
	}
	plan.ExpiresAt = types.StringUnknown()
	if plan.TTL.IsNull() {
		plan.ExpiresAt = types.StringNull()
	}
	resp.Diagnostics.Append(resp.Plan.Set(ctx, &plan)...)
}

// Create makes tokens up until one has an ID that is free.
func (r *bootstrapTokenResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan bootstrapTokenModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	client := r.Hub.WriteClient(&resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	const doing = "make a bootstrap token"
	groups, err := tokenGroups(ctx, r.Hub, client, plan.clusters(), &resp.Diagnostics)
	if err != nil {
		hub.AddAPIError(&resp.Diagnostics, client, doing, err)
		return
	}
	if !r.keepsScope(ctx, client, &plan, doing, &resp.Diagnostics) {
		return
	}
	var token bootstrapToken
	for made := false; !made; {
		token, err = newBootstrapToken(plan.clusters(), groups, plan.Description.ValueString())
		if err == nil {
			token.Scope, token.TakesRequests = plan.scope(), true
			token.live(plan.TTL)
			err = token.owned().Create(ctx, client, resp.Private, &resp.Diagnostics)
		}
		var exists *crud.ExistsError
		if made = !errors.As(err, &exists); made && err != nil { // An ID that is taken is made up again.
			hub.AddAPIError(&resp.Diagnostics, client, doing, err)
			return
		}
	}
	plan.TokenID = types.StringValue(token.ID)
	plan.observe(token)
	crud.Save(ctx, &plan, &resp.State, resp.Identity, &resp.Diagnostics)
}

func (r *bootstrapTokenResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state bootstrapTokenModel
	secret := &corev1.Secret{}
	r.ReadObject(ctx, req, resp, &state, secret, func() error {
		token := tokenOf(secret)
		if !state.Description.IsNull() {
			state.Description = attribute.OptionalString(token.Description)
		}
		state.observe(token)
		return nil
	})
}

// Update writes the Secret as it is with what the plan says: the token itself and
// its groups stay.
func (r *bootstrapTokenResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan, state bootstrapTokenModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	client := r.Hub.WriteClient(&resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	doing := "update " + state.What()
	secret := &corev1.Secret{}
	namespace, name := state.Key()
	if !r.Existing(ctx, secret, namespace, name, doing, &resp.Diagnostics) || !r.keepsScope(ctx, client, &plan, doing, &resp.Diagnostics) {
		return
	}
	token := tokenOf(secret)
	token.Description = plan.Description.ValueString()
	usedBy := token.Scope.UsedBy
	token.Scope = plan.scope()
	if !plan.TTL.Equal(state.TTL) {
		token.live(plan.TTL)
	}
	if !r.UpdateObject(ctx, token.owned(), req.Private, resp.Private, &resp.Diagnostics) {
		return
	}
	plan.ExpiresAt = token.expiresAt()
	if plan.UsedBy.IsUnknown() {
		plan.UsedBy = attribute.StringListValue(append([]string{}, usedBy...))
	}
	crud.Save(ctx, &plan, &resp.State, resp.Identity, &resp.Diagnostics)
}

func (r *bootstrapTokenResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state bootstrapTokenModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	r.Destroy(ctx, &corev1.Secret{}, &state, attribute.DefaultDelete, req.Private, &resp.Diagnostics, nil)
}

func (r *bootstrapTokenResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	secret := &corev1.Secret{}
	named := func(names []string) crud.Model { return &bootstrapTokenModel{TokenID: types.StringValue(names[0])} }
	r.ImportObject(ctx, req, resp, []string{"token_id"}, secret, named, func() (crud.Model, error) {
		if secret.Type != corev1.SecretTypeBootstrapToken {
			return nil, fmt.Errorf("the Secret %s/%s is of type %q, and no bootstrap token", secret.Namespace, secret.Name, secret.Type)
		}
		return importToken(secret), nil
	})
}
