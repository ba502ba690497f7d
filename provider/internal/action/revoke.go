package action

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-validators/actionvalidator"
	"github.com/hashicorp/terraform-plugin-framework/action"
	"github.com/hashicorp/terraform-plugin-framework/action/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/suggest"
	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/registration"
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
	a.invoke(ctx, req, resp, &config, func(client *kube.Client, report *reporter) (string, error) {
		o := revokeOptions{TokenID: config.TokenID.ValueString(), Cluster: config.ManagedCluster.ValueString()}
		return "revoke bootstrap tokens", revoke(ctx, client, o, report)
	})
}

// revokeOptions say which bootstrap tokens are revoked: one of the fields is set.
type revokeOptions struct {
	// TokenID is the public half of one token.
	TokenID string
	// Cluster stands for all tokens that are for this cluster alone.
	Cluster string
}

// revoke makes bootstrap tokens void. The hub refuses them at once, and a muster
// hub deletes the undecided certificate requests that were made with them. Clusters
// that have joined stay.
func revoke(ctx context.Context, client *kube.Client, o revokeOptions, report *reporter) error {
	tokens, err := registration.FindTokens(ctx, client)
	if err != nil {
		return err
	}
	if o.TokenID != "" {
		return revokeOne(ctx, client, report, tokens, o.TokenID)
	}
	revoked := 0
	for _, token := range tokens {
		switch {
		case !slices.Contains(token.Clusters, o.Cluster):
			continue
		case len(token.Clusters) > 1:
			report.warn(fmt.Sprintf("The bootstrap token %q is valid for several clusters", token.ID),
				"It stays, as it is for %s. Revoke it by its ID if none of them is to join with it.", strings.Join(quotedNames(token.Clusters), ", "))
			continue
		}
		if err := revokeTokens(ctx, client, report, token); err != nil {
			return err
		}
		revoked++
	}
	if revoked > 0 {
		return nil
	}
	report.say("No bootstrap token is for %s alone. Nothing is to be revoked.", o.Cluster)
	names := clusterNames(ctx, client)
	switch {
	case slices.ContainsFunc(tokens, func(token registration.Token) bool { return token.ID == o.Cluster }):
		report.warn(fmt.Sprintf("%q is the ID of a bootstrap token", o.Cluster), "It was looked for as the name of a cluster, and nothing was revoked. Give it as token_id to revoke the token.")
	case !slices.Contains(names, o.Cluster) && len(suggest.Names(o.Cluster, names)) > 0:
		report.warn(fmt.Sprintf("There is no managed cluster %q", o.Cluster), "Nothing was revoked. If another one was meant: %s", orElse(o.Cluster, "managed cluster", names))
	}
	return nil
}

func revokeOne(ctx context.Context, client *kube.Client, report *reporter, tokens []registration.Token, id string) error {
	for _, token := range tokens {
		if token.ID == id {
			return revokeTokens(ctx, client, report, token)
		}
	}
	report.say("The hub has no bootstrap token %s: it was revoked, or has expired. Nothing is to be done.", id)
	ids := make([]string, 0, len(tokens))
	for _, token := range tokens {
		ids = append(ids, token.ID)
	}
	if slices.ContainsFunc(tokens, func(token registration.Token) bool { return slices.Contains(token.Clusters, id) }) {
		report.warn(fmt.Sprintf("%q is the name of a cluster", id), "It was looked for as the ID of a bootstrap token, and nothing was revoked. Give it as managed_cluster to revoke the tokens of this cluster.")
	} else if near := suggest.Names(id, ids); len(near) > 0 {
		report.warn(fmt.Sprintf("There is no bootstrap token %q", id), "Nothing was revoked. If another one was meant: %s", orElse(id, "bootstrap token", ids))
	}
	return nil
}

func revokeTokens(ctx context.Context, client *kube.Client, report *reporter, token registration.Token) error {
	namespace, name := registration.TokenSecret(token.ID)
	secret := &corev1.Secret{}
	deletion, err := client.Delete(ctx, secret, namespace, name, token.Secret.UID)
	if err == nil && !deletion.Gone {
		report.say("The bootstrap token %s waits for the finalizers %s.", token.ID, strings.Join(token.Secret.Finalizers, ", "))
		err = client.WaitGone(ctx, secret, namespace, name, deletion.UID)
	}
	if err != nil {
		return err
	}
	done := fmt.Sprintf("The bootstrap token %s is revoked.", token.ID)
	if len(token.UsedBy) > 0 {
		done += fmt.Sprintf(" The clusters that have joined with it stay: %s.", text.List(token.UsedBy, 10))
	}
	report.say("%s", done)
	if crud.OwnerMark(&token.Secret) != "" {
		report.warn(fmt.Sprintf("Terraform manages the bootstrap token %q", token.ID),
			"A muster_bootstrap_token has made it. If that is still in a configuration, its next apply makes another token: remove the resource if there is to be none.")
	}
	return nil
}

func quotedNames(names []string) []string {
	out := make([]string, 0, len(names))
	for _, name := range names {
		out = append(out, strconv.Quote(name))
	}
	return out
}
