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
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/suggest"
	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/registration"
)

// revokeToken is muster_revoke_token.
func revokeToken() declaration {
	return declaration{
		name: "revoke_token",
		description: "Revokes bootstrap tokens. The hub refuses them at once, and a muster hub deletes the undecided " +
			"certificate requests that were made with them. Clusters that have joined stay.\n\n" +
			"A token that a `muster_bootstrap_token` manages is revoked by destroying that resource, and rotated " +
			"with `terraform apply -replace`. The action warns of one, as the next apply would make another.",
		attributes: map[string]schema.Attribute{
			"token_id": optional("Public half of the token: the six characters before the dot. Give either this or "+
				"`managed_cluster`.", validTokenID()),
			clusterName: optional("Name of a cluster: all tokens that are for it alone are revoked. Those for "+
				"several clusters or for any stay; the action names the former.", attribute.ValidClusterName()),
		},
		validators: []action.ConfigValidator{actionvalidator.ExactlyOneOf(path.MatchRoot("token_id"),
			path.MatchRoot(clusterName))},
		doing: "revoke bootstrap tokens", do: revoke,
	}
}

// validTokenID takes the public half of a token. It never repeats what it refuses,
// which may be a whole token.
func validTokenID() validator.String {
	id, whole := regexp.MustCompile(`^[a-z0-9]{6}$`), regexp.MustCompile(`^[a-z0-9]{6}\.`)
	return attribute.ValidText("a token ID: six lower-case letters and digits",
		func(_ path.Path, text string) (summary, detail string) {
			switch {
			case id.MatchString(text):
				return "", ""
			case whole.MatchString(text):
				return "A token and not its ID", "The value is a whole token, with its secret half. Give only the " +
					"six " +
					"characters before the dot."
			}
			return "Invalid token ID", "The value is not the ID of a bootstrap token, which has six lower-case " +
				"letters " +
				"and digits. To revoke the tokens of a cluster, use managed_cluster."
		})
}

// revoke makes bootstrap tokens void. The hub refuses them at once, and a muster
// hub deletes the undecided certificate requests that were made with them. Clusters
// that have joined stay.
func revoke(ctx context.Context, r *run) error {
	tokens, err := registration.FindTokens(ctx, r.client)
	if err != nil {
		return err
	}
	if id := r.Text("token_id"); id != "" {
		return r.revokeOne(ctx, tokens, id)
	}
	revoked := 0
	for _, token := range tokens {
		switch {
		case !slices.Contains(token.Clusters, r.cluster):
			continue
		case len(token.Clusters) > 1:
			r.warn(fmt.Sprintf("The bootstrap token %q is valid for several clusters", token.ID),
				"It stays, as it is for %s. Revoke it by its ID if none of them is to join with it.",
				strings.Join(quotedNames(token.Clusters), ", "))
			continue
		}
		if err := r.revokeToken(ctx, token); err != nil {
			return err
		}
		revoked++
	}
	if revoked > 0 {
		return nil
	}
	r.say("No bootstrap token is for %s alone. Nothing is to be revoked.", r.cluster)
	names := clusterNames(ctx, r.client)
	switch {
	case slices.ContainsFunc(tokens, func(token registration.Token) bool { return token.ID == r.cluster }):
		r.warn(fmt.Sprintf("%q is the ID of a bootstrap token", r.cluster), "It was looked for as the name of a "+
			"cluster, and nothing was revoked. Give it as token_id to revoke the token.")
	case !slices.Contains(names, r.cluster) && len(suggest.Names(r.cluster, names)) > 0:
		r.warn(fmt.Sprintf("There is no managed cluster %q", r.cluster), "Nothing was revoked. If another one was "+
			"meant: %s", orElse(r.cluster, "managed cluster", names))
	}
	return nil
}

func (r *run) revokeOne(ctx context.Context, tokens []registration.Token, id string) error {
	for _, token := range tokens {
		if token.ID == id {
			return r.revokeToken(ctx, token)
		}
	}
	r.say("The hub has no bootstrap token %s: it was revoked, or has expired. Nothing is to be done.", id)
	ids := make([]string, 0, len(tokens))
	for _, token := range tokens {
		ids = append(ids, token.ID)
	}
	if slices.ContainsFunc(tokens, func(token registration.Token) bool { return slices.Contains(token.Clusters, id) }) {
		r.warn(fmt.Sprintf("%q is the name of a cluster", id), "It was looked for as the ID of a bootstrap token, "+
			"and nothing was revoked. Give it as managed_cluster to revoke the tokens of this cluster.")
	} else if near := suggest.Names(id, ids); len(near) > 0 {
		r.warn(fmt.Sprintf("There is no bootstrap token %q", id), "Nothing was revoked. If another one was meant: %s",
			orElse(id,
				"bootstrap token", ids))
	}
	return nil
}

func (r *run) revokeToken(ctx context.Context, token registration.Token) error {
	namespace, name := registration.TokenSecret(token.ID)
	secret := &corev1.Secret{}
	deletion, err := r.client.Delete(ctx, secret, namespace, name, token.Secret.UID)
	if err == nil && !deletion.Gone {
		r.say("The bootstrap token %s waits for the finalizers %s.", token.ID, strings.Join(token.Secret.Finalizers,
			", "))
		err = r.client.WaitGone(ctx, secret, namespace, name, deletion.UID)
	}
	if err != nil {
		return err
	}
	done := fmt.Sprintf("The bootstrap token %s is revoked.", token.ID)
	if len(token.UsedBy) > 0 {
		done += fmt.Sprintf(" The clusters that have joined with it stay: %s.", text.List(token.UsedBy, 10))
	}
	r.say("%s", done)
	if crud.OwnerMark(&token.Secret) != "" {
		r.warn(fmt.Sprintf("Terraform manages the bootstrap token %q", token.ID),
			"A muster_bootstrap_token has made it. If that is still in a configuration, its next apply makes another "+
				"token: remove the resource if there is to be none.")
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
