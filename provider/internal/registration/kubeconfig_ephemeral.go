package registration

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/kubeconfig"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
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
				MarkdownDescription: fmt.Sprintf("The credential that the agent registers with. `%s`, the default, is a Kubernetes bootstrap token. `%s` is a token of the service account `%s/%s`, for hubs whose API server takes no bootstrap tokens, as those of most cloud providers; "+
					"it can register any cluster, and Terraform does not renew it, so `ttl` has to last for the whole run. Both are revoked when Terraform closes the resource.", credentialToken, credentialServiceAccount, cluster.Namespace, cluster.BootstrapServiceAccount),
				Optional:   true,
				Validators: []validator.String{stringvalidator.OneOf(credentialToken, credentialServiceAccount)},
			},
			"ttl": schema.StringAttribute{
				MarkdownDescription: fmt.Sprintf("How long the token stays valid if Terraform is killed and can't revoke it, such as `30m`. At least `1m`, with a service account `%s`; defaults to `%s`.", attribute.ShortDuration(minimumServiceAccountTTL), attribute.ShortDuration(defaultBootstrapTTL)),
				Optional:            true,
				Validators:          []validator.String{attribute.ValidDuration(minimumBootstrapTTL)},
			},
			"server": schema.StringAttribute{
				MarkdownDescription: "URL at which the agent reaches the hub. Defaults to what the hub publishes in `kube-public/cluster-info`, then to the provider's own host.",
				Optional:            true, Computed: true,
				Validators: []validator.String{attribute.ValidHTTPSURL()},
			},
			"cluster_ca_certificate": schema.StringAttribute{
				MarkdownDescription: "PEM certificates of the authorities that vouch for the hub. Defaults like `server`.",
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
	ttl, err := time.ParseDuration(model.TTL.ValueString())
	if err != nil || model.Credential.ValueString() != credentialServiceAccount || ttl >= minimumServiceAccountTTL {
		return
	}
	resp.Diagnostics.AddAttributeError(path.Root("ttl"), "The token's life is too short",
		fmt.Sprintf("ttl is %q, and tokens of service accounts live for %s at least. Use a longer one, or credential = %q.", model.TTL.ValueString(), attribute.ShortDuration(minimumServiceAccountTTL), credentialToken))
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
	var clusters []string
	if name != "" {
		clusters = []string{name}
		doing += fmt.Sprintf(" for managed cluster %q", name)
	}
	ttl := defaultBootstrapTTL
	if parsed, err := time.ParseDuration(model.TTL.ValueString()); err == nil {
		ttl = parsed
	}
	where, err := agentEndpoint(ctx, client, model.Server.ValueString(), model.CA.ValueString())
	if err != nil {
		hub.AddAPIError(&resp.Diagnostics, client, doing, err)
		return
	}
	made, err := e.issue(ctx, client, &model, clusters, ttl, &resp.Diagnostics)
	if err != nil {
		hub.AddAPIError(&resp.Diagnostics, client, doing, err)
		return
	}
	config, err := kubeconfig.Config{
		Cluster: "hub", User: "bootstrap", Context: "bootstrap",
		Server: where.Server, CAData: where.CA, Token: made.Token,
	}.YAML()
	if err != nil {
		hub.AddAPIError(&resp.Diagnostics, client, doing, err)
		return
	}
	model.Server = types.StringValue(where.Server)
	model.CA = types.StringValue(string(where.CA))
	model.Kubeconfig = types.StringValue(string(config))
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

// issue makes the credential of the kind that is asked for.
func (e *bootstrapKubeconfigEphemeral) issue(ctx context.Context, client *kube.Client, model *bootstrapKubeconfigModel, clusters []string, ttl time.Duration, diags *diag.Diagnostics) (credential, error) {
	if model.Credential.ValueString() != credentialServiceAccount {
		return bootstrapTokenCredential(ctx, e.hub, client, clusters, ttl, diags)
	}
	if len(clusters) > 0 {
		diags.AddWarning("The token is not bound to its cluster",
			fmt.Sprintf("credential is %q, so the token for %s can register any cluster, as the service account can. Where the hub takes bootstrap tokens, use credential = %q.",
				credentialServiceAccount, strings.Join(quoted(clusters), ", "), credentialToken))
	}
	return serviceAccountCredential(ctx, client, ttl)
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
