package action

import (
	"context"
	"regexp"

	"github.com/hashicorp/terraform-plugin-framework-validators/actionvalidator"
	"github.com/hashicorp/terraform-plugin-framework/action"
	"github.com/hashicorp/terraform-plugin-framework/action/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/operation"
)

var (
	_ action.ActionWithConfigure        = (*revokeToken)(nil)
	_ action.ActionWithConfigValidators = (*revokeToken)(nil)
)

type revokeToken struct{ onHub }

type revokeTokenModel struct {
	TokenID        types.String `tfsdk:"token_id"`
	ManagedCluster types.String `tfsdk:"managed_cluster"`
}

// NewRevokeToken is muster_revoke_token.
func NewRevokeToken() action.Action { return &revokeToken{onHub{name: "revoke_token"}} }

func (a *revokeToken) Schema(_ context.Context, _ action.SchemaRequest, resp *action.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Revokes bootstrap tokens. The hub refuses them at once, and a muster hub deletes the undecided certificate requests that were made with them. Clusters that have joined stay.\n\n" +
			"A token that a `muster_bootstrap_token` manages is revoked by destroying that resource, and rotated with `terraform apply -replace`. The action warns of one, as the next apply would make another.",
		Attributes: map[string]schema.Attribute{
			"token_id": schema.StringAttribute{
				MarkdownDescription: "Public half of the token: the six characters before the dot. Give either this or `managed_cluster`.",
				Optional:            true,
				Validators:          []validator.String{validTokenID()},
			},
			"managed_cluster": schema.StringAttribute{
				MarkdownDescription: "Name of a cluster: all tokens that are for it alone are revoked. Those for several clusters or for any stay; the action names the former.",
				Optional:            true,
				Validators:          []validator.String{attribute.ValidClusterName()},
			},
		},
	}
}

// validTokenID takes the public half of a token. It never repeats what it refuses,
// which may be a whole token.
func validTokenID() validator.String {
	id, whole := regexp.MustCompile(`^[a-z0-9]{6}$`), regexp.MustCompile(`^[a-z0-9]{6}\.`)
	return attribute.ValidText("a token ID: six lower-case letters and digits", func(_ path.Path, text string) (summary, detail string) {
		switch {
		case id.MatchString(text):
			return "", ""
		case whole.MatchString(text):
			return "A token and not its ID", "The value is a whole token, with its secret half. Give only the six characters before the dot."
		}
		return "Invalid token ID", "The value is not the ID of a bootstrap token, which has six lower-case letters and digits. To revoke the tokens of a cluster, use managed_cluster."
	})
}

// ConfigValidators implements action.ActionWithConfigValidators.
func (a *revokeToken) ConfigValidators(context.Context) []action.ConfigValidator {
	return []action.ConfigValidator{actionvalidator.ExactlyOneOf(path.MatchRoot("token_id"), path.MatchRoot("managed_cluster"))}
}

func (a *revokeToken) Invoke(ctx context.Context, req action.InvokeRequest, resp *action.InvokeResponse) {
	var config revokeTokenModel
	a.invoke(ctx, req, resp, &config, func(client *kube.Client, listener operation.Listener) (string, error) {
		o := operation.RevokeOptions{TokenID: config.TokenID.ValueString(), Cluster: config.ManagedCluster.ValueString()}
		return "revoke bootstrap tokens", operation.Revoke(ctx, client, o, listener)
	})
}
