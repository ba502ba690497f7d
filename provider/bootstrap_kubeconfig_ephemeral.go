package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/ephemeral"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/kubeconfig"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
)

var (
	_ ephemeral.EphemeralResourceWithConfigure = (*bootstrapKubeconfigEphemeral)(nil)
	_ ephemeral.EphemeralResourceWithRenew     = (*bootstrapKubeconfigEphemeral)(nil)
	_ ephemeral.EphemeralResourceWithClose     = (*bootstrapKubeconfigEphemeral)(nil)
)

const (
	defaultBootstrapTTL = time.Hour
	minimumBootstrapTTL = time.Minute

	// privateToken is the key of what Renew and Close need to know.
	privateToken = "token"
)

type bootstrapKubeconfigEphemeral struct{ hub *hub }

type bootstrapKubeconfigModel struct {
	ManagedCluster types.String `tfsdk:"managed_cluster"`
	TTL            types.String `tfsdk:"ttl"`
	Server         types.String `tfsdk:"server"`
	CA             types.String `tfsdk:"cluster_ca_certificate"`
	Kubeconfig     types.String `tfsdk:"kubeconfig"`
	Token          types.String `tfsdk:"token"`
	ExpiresAt      types.String `tfsdk:"expires_at"`
}

// openToken is what is remembered between Open, Renew and Close.
type openToken struct {
	ID  string        `json:"id"`
	TTL time.Duration `json:"ttl"`
}

func newBootstrapKubeconfigEphemeral() ephemeral.EphemeralResource {
	return &bootstrapKubeconfigEphemeral{}
}

func (e *bootstrapKubeconfigEphemeral) Metadata(_ context.Context, req ephemeral.MetadataRequest, resp *ephemeral.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_bootstrap_kubeconfig"
}

func (e *bootstrapKubeconfigEphemeral) Configure(_ context.Context, req ephemeral.ConfigureRequest, resp *ephemeral.ConfigureResponse) {
	e.hub = configured(req.ProviderData, &resp.Diagnostics)
}

func (e *bootstrapKubeconfigEphemeral) Schema(_ context.Context, _ ephemeral.SchemaRequest, resp *ephemeral.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "A kubeconfig with which one cluster's agent can introduce itself to the hub, for the write-only attribute `bootstrap_kubeconfig_wo` of `muster_klusterlet`. " +
			"Its token is made when Terraform needs it, lives for `ttl`, is renewed while Terraform runs, and is revoked when Terraform is done with it. It appears neither in the state nor in the plan.\n\n" +
			"With `managed_cluster` the token is bound: a muster hub lets it register that cluster and no other, and approves its certificate request by itself once the cluster is accepted.",
		Attributes: map[string]schema.Attribute{
			"managed_cluster": schema.StringAttribute{
				MarkdownDescription: "Name of the cluster that the token is bound to. Left out, it can register any cluster.",
				Optional:            true,
				Validators:          []validator.String{nameValidator{"cluster name"}},
			},
			"ttl": schema.StringAttribute{
				MarkdownDescription: fmt.Sprintf("How long the token stays valid when Terraform is killed and can't revoke it, such as `30m`. At least `1m`; defaults to `%s`.", shortDuration(defaultBootstrapTTL)),
				Optional:            true,
				Validators:          []validator.String{durationValidator{minimumBootstrapTTL}},
			},
			"server": schema.StringAttribute{
				MarkdownDescription: "URL at which the agent reaches the hub. Defaults to what the hub publishes in `kube-public/cluster-info`, then to the provider's own host.",
				Optional:            true, Computed: true,
				Validators: []validator.String{urlValidator{https: true}},
			},
			"cluster_ca_certificate": schema.StringAttribute{
				MarkdownDescription: "PEM certificates of the authorities that vouch for the hub. Defaults like `server`.",
				Optional:            true, Computed: true,
				Validators: []validator.String{pemValidator{}},
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

func (e *bootstrapKubeconfigEphemeral) Open(ctx context.Context, req ephemeral.OpenRequest, resp *ephemeral.OpenResponse) {
	var model bootstrapKubeconfigModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if e.hub != nil && e.hub.isUnknown() {
		// Terraform opens ephemeral resources while planning, too. A hub that
		// the same apply makes has no token to give yet, which is no reason to
		// refuse the plan.
		if req.ClientCapabilities.DeferralAllowed {
			resp.Deferred = &ephemeral.Deferred{Reason: ephemeral.DeferredReasonProviderConfigUnknown}
			return
		}
		model.Kubeconfig, model.Token, model.ExpiresAt = types.StringUnknown(), types.StringUnknown(), types.StringUnknown()
		model.Server, model.CA = unlessSet(model.Server), unlessSet(model.CA)
		resp.Diagnostics.Append(resp.Result.Set(ctx, &model)...)
		return
	}
	client := e.hub.client(&resp.Diagnostics)
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
		addAPIError(&resp.Diagnostics, client, doing, err)
		return
	}
	groups, err := e.hub.tokenGroups(ctx, client, clusters, &resp.Diagnostics)
	if err != nil {
		addAPIError(&resp.Diagnostics, client, doing, err)
		return
	}
	token, err := newBootstrapToken(clusters, groups, "Made by Terraform, which revokes it.")
	if err != nil {
		addAPIError(&resp.Diagnostics, client, doing, err)
		return
	}
	token.Expires = time.Now().Add(ttl)
	if err := client.Apply(ctx, token.object(), kube.ApplyOptions{Manager: fieldManager}); err != nil {
		addAPIError(&resp.Diagnostics, client, doing, err)
		return
	}
	config, err := kubeconfig.Config{
		Cluster: "hub", User: "bootstrap", Context: "bootstrap",
		Server: where.Server, CAData: where.CA, Token: token.String(),
	}.YAML()
	if err != nil {
		addAPIError(&resp.Diagnostics, client, doing, err)
		return
	}
	model.Server = types.StringValue(where.Server)
	model.CA = types.StringValue(string(where.CA))
	model.Kubeconfig = types.StringValue(string(config))
	model.Token = types.StringValue(token.String())
	model.ExpiresAt = types.StringValue(token.Expires.UTC().Format(time.RFC3339))
	resp.Diagnostics.Append(resp.Result.Set(ctx, &model)...)
	private, err := json.Marshal(openToken{ID: token.ID, TTL: ttl})
	if err != nil {
		addAPIError(&resp.Diagnostics, client, doing, err)
		return
	}
	resp.Diagnostics.Append(resp.Private.SetKey(ctx, privateToken, private)...)
	resp.RenewAt = token.Expires.Add(-ttl / 2)
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
	client := e.hub.client(&resp.Diagnostics)
	private, diags := req.Private.GetKey(ctx, privateToken)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	var token openToken
	if err := json.Unmarshal(private, &token); err != nil {
		addAPIError(&resp.Diagnostics, client, "renew a bootstrap token", err)
		return
	}
	expires := time.Now().Add(token.TTL)
	secret := &corev1.Secret{}
	secret.Namespace, secret.Name = metav1.NamespaceSystem, tokenSecretName(token.ID)
	err := client.MergePatch(ctx, secret, fieldManager, map[string]any{
		"data": map[string][]byte{expirationKey: []byte(expires.UTC().Format(time.RFC3339))},
	})
	if err != nil {
		addAPIError(&resp.Diagnostics, client, fmt.Sprintf("renew the bootstrap token %q", token.ID), err)
		return
	}
	resp.RenewAt = expires.Add(-token.TTL / 2)
}

// Close revokes the token.
func (e *bootstrapKubeconfigEphemeral) Close(ctx context.Context, req ephemeral.CloseRequest, resp *ephemeral.CloseResponse) {
	private, diags := req.Private.GetKey(ctx, privateToken)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() || private == nil {
		return // nothing was made while the hub was unknown
	}
	client := e.hub.client(&resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	var token openToken
	if err := json.Unmarshal(private, &token); err != nil {
		addAPIError(&resp.Diagnostics, client, "revoke a bootstrap token", err)
		return
	}
	if _, err := client.Delete(ctx, &corev1.Secret{}, metav1.NamespaceSystem, tokenSecretName(token.ID), ""); err != nil {
		addAPIError(&resp.Diagnostics, client, fmt.Sprintf("revoke the bootstrap token %q, which expires by itself", token.ID), err)
	}
}
