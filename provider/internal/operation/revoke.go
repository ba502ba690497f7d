package operation

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/suggest"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/ownership"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/registration"
)

// RevokeOptions say which bootstrap tokens are revoked: one of the fields is set.
type RevokeOptions struct {
	// TokenID is the public half of one token.
	TokenID string
	// Cluster stands for all tokens that are for this cluster alone.
	Cluster string
}

// Revoke makes bootstrap tokens void. The hub refuses them at once, and a muster
// hub deletes the undecided certificate requests that were made with them. Clusters
// that have joined stay.
func Revoke(ctx context.Context, client *kube.Client, o RevokeOptions, l Listener) error {
	t := newTeller(l)
	tokens, err := registration.FindTokens(ctx, client)
	if err != nil {
		return err
	}
	if o.TokenID != "" {
		return revokeOne(ctx, client, t, tokens, o.TokenID)
	}
	revoked := 0
	for _, token := range tokens {
		switch {
		case !slices.Contains(token.Clusters, o.Cluster):
			continue
		case len(token.Clusters) > 1:
			t.warn(fmt.Sprintf("The bootstrap token %q is valid for several clusters", token.ID),
				"It stays, as it is for %s. Revoke it by its ID if none of them is to join with it.", strings.Join(quoted(token.Clusters), ", "))
			continue
		}
		if err := revoke(ctx, client, t, token); err != nil {
			return err
		}
		revoked++
	}
	if revoked > 0 {
		return nil
	}
	t.say("No bootstrap token is for %s alone. Nothing is to be revoked.", o.Cluster)
	names := clusterNames(ctx, client)
	switch {
	case slices.ContainsFunc(tokens, func(token registration.Token) bool { return token.ID == o.Cluster }):
		t.warn(fmt.Sprintf("%q is the ID of a bootstrap token", o.Cluster), "It was looked for as the name of a cluster, and nothing was revoked. Give it as token_id to revoke the token.")
	case !slices.Contains(names, o.Cluster) && len(suggest.Names(o.Cluster, names)) > 0:
		t.warn(fmt.Sprintf("There is no managed cluster %q", o.Cluster), "Nothing was revoked. If another one was meant: %s", orElse(o.Cluster, "managed cluster", names))
	}
	return nil
}

func revokeOne(ctx context.Context, client *kube.Client, t *teller, tokens []registration.Token, id string) error {
	for _, token := range tokens {
		if token.ID == id {
			return revoke(ctx, client, t, token)
		}
	}
	t.say("The hub has no bootstrap token %s: it was revoked, or has expired. Nothing is to be done.", id)
	ids := make([]string, 0, len(tokens))
	for _, token := range tokens {
		ids = append(ids, token.ID)
	}
	if slices.ContainsFunc(tokens, func(token registration.Token) bool { return slices.Contains(token.Clusters, id) }) {
		t.warn(fmt.Sprintf("%q is the name of a cluster", id), "It was looked for as the ID of a bootstrap token, and nothing was revoked. Give it as managed_cluster to revoke the tokens of this cluster.")
	} else if near := suggest.Names(id, ids); len(near) > 0 {
		t.warn(fmt.Sprintf("There is no bootstrap token %q", id), "Nothing was revoked. If another one was meant: %s", orElse(id, "bootstrap token", ids))
	}
	return nil
}

func revoke(ctx context.Context, client *kube.Client, t *teller, token registration.Token) error {
	namespace, name := registration.TokenSecret(token.ID)
	secret := &corev1.Secret{}
	deletion, err := client.Delete(ctx, secret, namespace, name, token.Secret.UID)
	if err == nil && !deletion.Gone {
		t.say("The bootstrap token %s waits for the finalizers %s.", token.ID, strings.Join(token.Secret.Finalizers, ", "))
		err = client.WaitGone(ctx, secret, namespace, name, deletion.UID)
	}
	if err != nil {
		return err
	}
	text := fmt.Sprintf("The bootstrap token %s is revoked.", token.ID)
	if len(token.UsedBy) > 0 {
		text += fmt.Sprintf(" The clusters that have joined with it stay: %s.", some(token.UsedBy, 10))
	}
	t.say("%s", text)
	if ownership.Mark(&token.Secret) != "" {
		t.warn(fmt.Sprintf("Terraform manages the bootstrap token %q", token.ID),
			"A muster_bootstrap_token has made it. If that is still in a configuration, its next apply makes another token: remove the resource if there is to be none.")
	}
	return nil
}

func quoted(names []string) []string {
	out := make([]string, 0, len(names))
	for _, name := range names {
		out = append(out, strconv.Quote(name))
	}
	return out
}
