package action

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/actionvalidator"
	"github.com/hashicorp/terraform-plugin-framework/action"
	"github.com/hashicorp/terraform-plugin-framework/action/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/muster-fleet/terraform-provider-muster/internal/suggest"
	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// The actions that take rights away: those of a cluster's agent, and bootstrap tokens.

// denyCluster is muster_deny_cluster.
func denyCluster() declaration {
	return declaration{
		name: "deny_cluster",
		description: "Denies a cluster: sets `hubAcceptsClient` to false and waits until the hub has withdrawn the " +
			"rights of its agent. What runs in the cluster keeps running, and its works stay on the hub. A denied " +
			"cluster stays denied until it is accepted again; its agent then goes on with the certificate that it " +
			"has.\n\n" +
			"A cluster that a `muster_cluster_acceptance` accepts is better denied there, with `accepted = false`: " +
			"its next apply would accept the cluster again, so the action refuses.",
		attributes: map[string]schema.Attribute{
			clusterName: attribute.Required("Name of the managed cluster.", attribute.ValidClusterName()),
			"force_conflicts": attribute.OptionalFlag("Whether to deny the cluster also when a " +
				"`muster_cluster_acceptance` accepts it, for emergencies. Change that resource before its next apply."),
		},
		takes: "the hub", timeout: 2 * time.Minute,
		doing: "deny managed cluster", to: []string{clusterName}, do: deny,
	}
}

// deny withdraws a cluster's acceptance, and waits until the hub has withdrawn the
// rights of its agent. What runs in the cluster keeps running.
func deny(ctx context.Context, r *run) error {
	object, err := r.findCluster(ctx)
	if err != nil {
		return err
	}
	switch {
	case !object.Spec.AcceptsClient() && !grantedRights(object):
		r.say("%s is not accepted. Nothing is to be done.", r.cluster)
		return nil
	case object.Spec.AcceptsClient() && !r.Bool("force_conflicts") &&
		crud.FieldsOf(object, hub.AcceptanceManager).Has("spec", "hubAcceptsClient"):
		return refuse(fmt.Sprintf("Terraform accepts managed cluster %q", r.cluster),
			"A muster_cluster_acceptance has set hubAcceptsClient, and the next apply of its configuration would "+
				"accept the cluster again. Set accepted = false in that resource and apply, or remove it with its "+
				"next apply. To deny the cluster at once, for example because its credentials have leaked, set "+
				"force_conflicts, and change the configuration before its next apply.")
	case object.Spec.AcceptsClient():
		patch := map[string]any{
			"metadata": map[string]any{"uid": object.UID}, "spec": map[string]any{"hubAcceptsClient": false},
		}
		if err := r.client.MergePatch(ctx, object, hub.AcceptanceManager, patch); err != nil {
			return err
		}
		r.say("%s is denied. The hub withdraws the rights of its agent.", r.cluster)
	default:
		r.say("%s is denied already. The hub withdraws the rights of its agent.", r.cluster)
	}
	if err := r.awaitDenial(ctx, object); err != nil {
		return err
	}
	r.say("The hub has withdrawn the rights of the agent in %s. What runs in the cluster keeps running.", r.cluster)
	works := &workv1.ManifestWorkList{}
	if r.client.List(ctx, works, kube.ListOptions{Namespace: r.cluster}) == nil && len(works.Items) > 0 {
		r.say("%s of it stay on the hub. The agent gets no changes of them; it may only clean up behind those that "+
			"are deleted.", crud.Count(len(works.Items), "work"))
	}
	return nil
}

// awaitDenial waits until the hub has withdrawn the rights.
func (r *run) awaitDenial(ctx context.Context, object *clusterv1.ManagedCluster) error {
	wait := func(ctx context.Context) error {
		return r.client.Wait(ctx, object, "", r.cluster, func(exists bool) (bool, error) {
			if exists && object.Spec.AcceptsClient() {
				return false, refuse(fmt.Sprintf("Managed cluster %q is accepted again", r.cluster),
					"Somebody has set hubAcceptsClient to true since it was denied: a person, a "+
						"muster_cluster_acceptance of another configuration, or a controller that accepts clusters. "+
						"Its managers are in: kubectl get managedcluster %s -o yaml --show-managed-fields", r.cluster)
			}
			return !exists || !grantedRights(object), nil
		})
	}
	late := func() error {
		return refuse(fmt.Sprintf("The hub has not withdrawn the rights of managed cluster %q", r.cluster),
			"hubAcceptsClient is false, but within %s the hub's registration controller has not reported that it has "+
				"withdrawn the rights. Conditions:\n%s\n\nCheck that the controller runs. Next:\n"+
				"  kubectl describe managedcluster %s",
			r.timeout, hub.DescribeConditions(object.Status.Conditions, time.Now()), r.cluster)
	}
	return r.wait(ctx, nil, wait, late, fmt.Sprintf("Managed cluster %q is denied. The hub withdraws the rights of "+
		"its agent, which nobody waits for any more.", r.cluster))
}

func grantedRights(object *clusterv1.ManagedCluster) bool {
	return meta.IsStatusConditionTrue(object.Status.Conditions, cluster.ConditionHubAccepted)
}

// revokeToken is muster_revoke_token.
func revokeToken() declaration {
	return declaration{
		name: "revoke_token",
		description: "Revokes bootstrap tokens. The hub refuses them at once, and a muster hub deletes the undecided " +
			"certificate requests that were made with them. Clusters that have joined stay.\n\n" +
			"A token that a `muster_bootstrap_token` manages is revoked by destroying that resource, and rotated " +
			"with `terraform apply -replace`. The action warns of one, as the next apply would make another.",
		attributes: map[string]schema.Attribute{
			"token_id": attribute.Optional("Public half of the token: the six characters before the dot. Give "+
				"either this or `managed_cluster`.", validTokenID()),
			clusterName: attribute.Optional("Name of a cluster: all tokens that are for it alone are revoked. Those "+
				"for several clusters or for any stay; the action names the former.", attribute.ValidClusterName()),
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
					"six characters before the dot."
			}
			return "Invalid token ID", "The value is not the ID of a bootstrap token, which has six lower-case " +
				"letters and digits. To revoke the tokens of a cluster, use managed_cluster."
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
				strings.Join(token.Clusters, ", "))
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
	names := r.clusterNames(ctx)
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
			orElse(id, "bootstrap token", ids))
	}
	return nil
}

func (r *run) revokeToken(ctx context.Context, token registration.Token) error {
	namespace, name := registration.TokenSecret(token.ID)
	secret := &corev1.Secret{}
	deletion, err := r.client.Delete(ctx, secret, namespace, name, token.Secret.UID)
	if err == nil && !deletion.Gone {
		r.say("The bootstrap token %s waits for the finalizers %s.", token.ID,
			strings.Join(token.Secret.Finalizers, ", "))
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
