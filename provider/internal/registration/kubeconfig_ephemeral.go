package registration

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
)

var (
	_ ephemeral.EphemeralResourceWithConfigure      = (*bootstrapKubeconfigEphemeral)(nil)
	_ ephemeral.EphemeralResourceWithValidateConfig = (*bootstrapKubeconfigEphemeral)(nil)
	_ ephemeral.EphemeralResourceWithRenew          = (*bootstrapKubeconfigEphemeral)(nil)
	_ ephemeral.EphemeralResourceWithClose          = (*bootstrapKubeconfigEphemeral)(nil)
)

const (
	defaultBootstrapTTL = time.Hour
	minimumBootstrapTTL = time.Minute

	// privateToken is the key of what Renew and Close need to know.
	privateToken = "token"
)

type bootstrapKubeconfigEphemeral struct{ hub *hub.Hub }

type bootstrapKubeconfigModel struct {
	ManagedCluster types.String `tfsdk:"managed_cluster"`
	Credential     types.String `tfsdk:"credential"`
	TTL            types.String `tfsdk:"ttl"`
	Server         types.String `tfsdk:"server"`
	CA             types.String `tfsdk:"cluster_ca_certificate"`
	Kubeconfig     types.String `tfsdk:"kubeconfig"`
	Token          types.String `tfsdk:"token"`
	ExpiresAt      types.String `tfsdk:"expires_at"`
}

// NewKubeconfig is the ephemeral resource muster_bootstrap_kubeconfig.
func NewKubeconfig() ephemeral.EphemeralResource {
	return &bootstrapKubeconfigEphemeral{}
}

func (e *bootstrapKubeconfigEphemeral) Metadata(_ context.Context, req ephemeral.MetadataRequest, resp *ephemeral.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_bootstrap_kubeconfig"
}

func (e *bootstrapKubeconfigEphemeral) Configure(_ context.Context, req ephemeral.ConfigureRequest, resp *ephemeral.ConfigureResponse) {
	e.hub = hub.Configured(req.ProviderData, &resp.Diagnostics)
}

func (e *bootstrapKubeconfigEphemeral) Schema(_ context.Context, _ ephemeral.SchemaRequest, resp *ephemeral.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "A kubeconfig with which one cluster's agent can register at the hub, for the write-only attribute `bootstrap_kubeconfig_wo` of `muster_klusterlet`. " +
			"Its token is created when Terraform needs it, is valid for `ttl`, is renewed while Terraform runs, and is revoked when Terraform closes it. It appears neither in the state nor in the plan.\n\n" +
			"With `managed_cluster` the token is bound: a muster hub lets it register that cluster and no other, and approves its certificate request by itself once the cluster is accepted.",
		Attributes: map[string]schema.Attribute{
			"managed_cluster": schema.StringAttribute{
				MarkdownDescription: "Name of the cluster that the token is bound to. If omitted, it can register any cluster.",
				Optional:            true,
				Validators:          []validator.String{attribute.ValidClusterName()},
			},
			"credential": schema.StringAttribute{
				MarkdownDescription: credentialDescription() + " Terraform does not renew the latter, so `ttl` has to last for the whole run. Both are revoked when Terraform closes the resource.",
				Optional:            true,
				Validators:          []validator.String{stringvalidator.OneOf(CredentialToken, CredentialServiceAccount)},
			},
			"ttl": schema.StringAttribute{
				MarkdownDescription: ttlDescription(),
				Optional:            true,
				Validators:          []validator.String{attribute.ValidDuration(minimumBootstrapTTL)},
			},
			"server": schema.StringAttribute{
				MarkdownDescription: serverDescription,
				Optional:            true, Computed: true,
				Validators: []validator.String{attribute.ValidHTTPSURL()},
			},
			"cluster_ca_certificate": schema.StringAttribute{
				MarkdownDescription: caDescription,
				Optional:            true, Computed: true,
				Validators: []validator.String{attribute.ValidPEM()},
			},
			"kubeconfig": schema.StringAttribute{
				MarkdownDescription: "The kubeconfig.",
				Computed:            true, Sensitive: true,
			},
			"token": schema.StringAttribute{
				MarkdownDescription: "The token in it.",
				Computed:            true, Sensitive: true,
			},
			"expires_at": schema.StringAttribute{
				MarkdownDescription: "When the token expires unless it is renewed, in RFC 3339.",
				Computed:            true,
			},
		},
	}
}

// ValidateConfig refuses lives that Kubernetes gives no service account's token.
func (e *bootstrapKubeconfigEphemeral) ValidateConfig(ctx context.Context, req ephemeral.ValidateConfigRequest, resp *ephemeral.ValidateConfigResponse) {
	var model bootstrapKubeconfigModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	CheckTTL(path.Root("ttl"), model.Credential.ValueString(), model.TTL.ValueString(), &resp.Diagnostics)
}

func (e *bootstrapKubeconfigEphemeral) Open(ctx context.Context, req ephemeral.OpenRequest, resp *ephemeral.OpenResponse) {
	var model bootstrapKubeconfigModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if e.hub != nil && e.hub.IsUnknown() {
		resp.Diagnostics.Append(postpone(ctx, &model, req, resp)...)
		return
	}
	client := e.hub.Client(&resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	name := model.ManagedCluster.ValueString()
	doing := "make a bootstrap token"
	if name != "" {
		doing += fmt.Sprintf(" for managed cluster %q", name)
	}
	ttl := ParseTTL(model.TTL.ValueString())
	made, err := Bootstrap{
		Cluster: name, Credential: model.Credential.ValueString(), TTL: ttl, Server: model.Server.ValueString(), CA: model.CA.ValueString(),
	}.Issue(ctx, e.hub, client, &resp.Diagnostics)
	if err != nil {
		hub.AddAPIError(&resp.Diagnostics, client, doing, err)
		return
	}
	model.Server = types.StringValue(made.Server)
	model.CA = types.StringValue(made.CA)
	model.Kubeconfig = types.StringValue(string(made.Kubeconfig))
	model.Token = types.StringValue(made.Token)
	model.ExpiresAt = types.StringValue(made.Expires.UTC().Format(time.RFC3339))
	resp.Diagnostics.Append(resp.Result.Set(ctx, &model)...)
	private, err := json.Marshal(made.openCredential)
	if err != nil {
		hub.AddAPIError(&resp.Diagnostics, client, doing, err)
		return
	}
	resp.Diagnostics.Append(resp.Private.SetKey(ctx, privateToken, private)...)
	if made.Renewable {
		resp.RenewAt = made.Expires.Add(-ttl / 2)
	}
}

// postpone answers while the hub is unknown. Terraform opens ephemeral resources
// while planning, too. A hub that the same apply creates has no token to give yet,
// which is no reason to refuse the plan.
func postpone(ctx context.Context, model *bootstrapKubeconfigModel, req ephemeral.OpenRequest, resp *ephemeral.OpenResponse) diag.Diagnostics {
	if req.ClientCapabilities.DeferralAllowed {
		resp.Deferred = &ephemeral.Deferred{Reason: ephemeral.DeferredReasonProviderConfigUnknown}
		return nil
	}
	model.Kubeconfig, model.Token, model.ExpiresAt = types.StringUnknown(), types.StringUnknown(), types.StringUnknown()
	model.Server, model.CA = unlessSet(model.Server), unlessSet(model.CA)
	return resp.Result.Set(ctx, model)
}

// unlessSet is an unknown value in place of one that is left out.
func unlessSet(configured types.String) types.String {
	if configured.IsNull() {
		return types.StringUnknown()
	}
	return configured
}

// Renew puts the expiry off.
func (e *bootstrapKubeconfigEphemeral) Renew(ctx context.Context, req ephemeral.RenewRequest, resp *ephemeral.RenewResponse) {
	client := e.hub.Client(&resp.Diagnostics)
	private, diags := req.Private.GetKey(ctx, privateToken)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	var open openCredential
	if err := json.Unmarshal(private, &open); err != nil {
		hub.AddAPIError(&resp.Diagnostics, client, "renew a bootstrap token", err)
		return
	}
	if !open.Renewable {
		return
	}
	expires := time.Now().Add(open.TTL)
	secret := &corev1.Secret{}
	secret.Namespace, secret.Name = open.Namespace, open.Name
	err := client.MergePatch(ctx, secret, hub.FieldManager, map[string]any{
		"data": map[string][]byte{expirationKey: []byte(expires.UTC().Format(time.RFC3339))},
	})
	if err != nil {
		hub.AddAPIError(&resp.Diagnostics, client, fmt.Sprintf("renew the bootstrap token in the Secret %s/%s", open.Namespace, open.Name), err)
		return
	}
	resp.RenewAt = expires.Add(-open.TTL / 2)
}

// Close revokes the token.
func (e *bootstrapKubeconfigEphemeral) Close(ctx context.Context, req ephemeral.CloseRequest, resp *ephemeral.CloseResponse) {
	private, diags := req.Private.GetKey(ctx, privateToken)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() || private == nil {
		return // nothing was made while the hub was unknown
	}
	client := e.hub.Client(&resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	var open openCredential
	if err := json.Unmarshal(private, &open); err != nil {
		hub.AddAPIError(&resp.Diagnostics, client, "revoke a bootstrap token", err)
		return
	}
	if err := open.revoke(ctx, client); err != nil {
		hub.AddAPIError(&resp.Diagnostics, client, fmt.Sprintf("revoke the bootstrap token by deleting the Secret %s/%s; it expires by itself", open.Namespace, open.Name), err)
	}
}
