package registration

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/bootstraptoken"
	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

type tokenChange = crud.Change[*corev1.Secret]

// TokenKind is muster_bootstrap_token.
func TokenKind() crud.Declared {
	return &crud.Kind[*corev1.Secret]{
		Type: "bootstrap_token", Noun: "bootstrap token", Empty: &corev1.Secret{}, Sole: true,
		Description: "A bootstrap token that outlives the Terraform run, for agents that are installed by other " +
			"means: a golden image, a GitOps tool, `clusteradm join`.\n\n" +
			"Destroying it revokes the token: the hub refuses it at once, and a muster hub deletes the undecided " +
			"certificate requests that were made with it. Clusters that have joined stay. " +
			"`terraform apply -replace` rotates it.\n\n" +
			"~> The token is kept in the state. Where Terraform installs the agent, prefer the ephemeral resource " +
			"`muster_bootstrap_kubeconfig`, which is in no state.",
		Keys: []crud.Key{{
			Name: "token_id", Description: "The public half of the token, which names it on the hub.",
		}},
		Make: func(attribute.Values) []string {
			made, _ := bootstraptoken.New("", "", time.Time{}) // Randomness never fails.
			return []string{made.ID}
		},
		Table:   tokenTable(),
		Foreign: crud.ForeignMetadata,
		Hooks: crud.Hooks[*corev1.Secret]{
			Locate: func(keys []string) (namespace, name string) { return TokenSecret(keys[0]) },
			KeysOf: func(live *corev1.Secret) []string { return []string{tokenOf(live).ID} },
			Refuse: refuseSecret,
			Plan:   planToken,
			Own:    func(_ attribute.Values, o *crud.Owned) { o.Discreet = true },

			BeforeWrite: completeToken,
		},
		List: &crud.List[*corev1.Secret]{
			Plural: "bootstrap " +
				"tokens", Objects: &corev1.SecretList{}, Within: tokenSecrets(), Without: []string{"token"},
			About: "Listed are the tokens with which agents register and that have not expired, and of each only " +
				"what it may be used for: the token itself is left out.",
			Is: func(secret *corev1.Secret) bool {
				token := tokenOf(secret)
				groups := strings.Split(token.Groups, ",")
				registers := slices.Contains(groups, cluster.BootstrapGroup) || len(cluster.BoundClusters(groups)) > 0
				expired := !token.Expires.IsZero() && !token.Expires.After(time.Now())
				return registers && !expired && refuseSecret(secret) == nil
			},
			Describe: func(secret *corev1.Secret) string {
				token := tokenOf(secret)
				if len(token.Clusters) > 0 {
					return "for " + strings.Join(token.Clusters, ", ")
				}
				return token.Description
			},
		},
	}
}

// refuseSecret says why a Secret is no bootstrap token.
func refuseSecret(secret *corev1.Secret) error {
	switch {
	case secret.Type != corev1.SecretTypeBootstrapToken:
		return fmt.Errorf("the Secret %s/%s is of type %q, and no bootstrap token",
			secret.Namespace, secret.Name, secret.Type)
	case secret.Name != bootstraptoken.SecretName(tokenOf(secret).ID):
		return fmt.Errorf("the Secret %q is no bootstrap token: it is not named after its token-id", secret.Name)
	}
	return nil
}

// tokenTable are the attributes of a token, but for its ID. What the configuration leaves
// out of its scope may be somebody else's.
func tokenTable() attribute.Table[*corev1.Secret] {
	type token = *bootstrapToken
	set := func(description string, validators ...validator.Set) schema.SetAttribute {
		return schema.SetAttribute{MarkdownDescription: description, Optional: true, Validators: validators}
	}
	one := attribute.Optional("Name of the cluster that the token is bound to: a muster hub lets it register that "+
		"cluster and no other. Without it and `managed_clusters`, it can register any cluster. Changing it replaces "+
		"the token.",
		attribute.ValidClusterName(), stringvalidator.ConflictsWith(path.MatchRoot("managed_clusters")))
	one.PlanModifiers = []planmodifier.String{stringplanmodifier.RequiresReplace()}
	several := set("Names of the clusters that the token is bound to, if there are several. Changing them replaces "+
		"the token.", setvalidator.SizeAtLeast(1), setvalidator.ValueStringsAre(attribute.ValidClusterName()))
	several.PlanModifiers = []planmodifier.Set{setplanmodifier.RequiresReplace()}
	several.ElementType = types.StringType
	secret := attribute.Kept("The token.")
	secret.Sensitive = true
	return attribute.Through(tokenOf, (*bootstrapToken).write,
		attribute.Code("managed_cluster", one,
			func(name types.String, t token) { t.Clusters = []string{name.ValueString()} },
			func(t token) types.String {
				if len(t.Clusters) != 1 {
					return types.StringNull()
				}
				return types.StringValue(t.Clusters[0])
			}).Once(),
		attribute.Code("managed_clusters", several,
			func(names types.Set, t token) { t.Clusters = attribute.Sorted(attribute.StringList(names)) },
			func(t token) types.Set {
				if len(t.Clusters) < 2 {
					return types.SetNull(types.StringType)
				}
				return attribute.StringSetValue(t.Clusters)
			}).Once(),
		attribute.TextMap("cluster_labels",
			schema.MapAttribute{
				MarkdownDescription: "Labels that the hub puts on every ManagedCluster that is created with the " +
					"token. With `" + cluster.ClusterSetLabel + "` its clusters join a cluster set. A cluster with " +
					"another value for one of them is refused. Needs a muster hub.",
				Optional:   true,
				Validators: []validator.Map{attribute.ValidLabels(nil), mapvalidator.SizeAtLeast(1)},
			},
			func(t token) *map[string]string { return &t.Scope.Labels }).LeftToOthers(nil),
		attribute.Number("max_clusters",
			schema.Int64Attribute{
				MarkdownDescription: fmt.Sprintf("How many clusters may be registered with the token, 1 to %d. The "+
					"hub refuses further ones; a cluster counts once, however often it tries. If omitted, there is "+
					"no limit. Needs a muster hub.", cluster.MaxTokenClusters),
				Optional:   true,
				Validators: []validator.Int64{int64validator.Between(1, cluster.MaxTokenClusters)},
			},
			func(t token) *int { return &t.Scope.MaxClusters }).LeftToOthers(nil),
		attribute.TextSet("client_ids",
			set("Client IDs that agents may register by with the token, and no others; it is good for the clusters of "+
				"these IDs only. It proves that an agent may take over a `muster_managed_cluster` with one of them "+
				"as `client_id`, whose first certificate request the hub approves by itself once the cluster is "+
				"accepted. Needs a muster hub.",
				setvalidator.SizeBetween(1, cluster.MaxTokenClientIDs),
				setvalidator.ValueStringsAre(attribute.ValidClientID())),
			func(t token) *[]string { return &t.Scope.ClientIDs }).LeftToOthers(nil),
		attribute.TextSet("allowed_labels",
			set("Keys of labels that agents may choose with `--registration-label` when the hub creates their "+
				"ManagedCluster. A key that ends with `*`, such as `team.example.com/*`, stands for all that begin "+
				"like it. Labels of Kubernetes, Open Cluster Management and muster can't be allowed. Needs a muster "+
				"hub.", setvalidator.SizeAtLeast(1), setvalidator.ValueStringsAre(attribute.ValidAllowedLabel())),
			func(t token) *[]string { return &t.Scope.AllowedLabels }).LeftToOthers(nil),
		attribute.Text("description", attribute.Optional("Description of the token, for people who find it on the "+
			"hub."),
			func(t token) *string { return &t.Description }).LeftToOthers(nil),
		attribute.Text("ttl",
			attribute.Optional("How long the token is valid, counted from its creation or from the last change of "+
				"this value, such as `24h`; at least `1m`. The hub removes an expired token, and the next apply "+
				"creates another. If omitted, the token does not expire. Clusters that have joined no longer need it.",
				attribute.ValidDuration(minimumBootstrapTTL)),
			func(t token) *string { return &t.TTL }).Once(),
		attribute.Reported("token", secret, func(t token) types.String { return types.StringValue(t.String()) }),
		attribute.Reported("expires_at",
			attribute.Kept("When the token expires, in RFC 3339; null when it does not."), token.expiresAt),
		attribute.Reported("used_by",
			schema.ListAttribute{
				MarkdownDescription: fmt.Sprintf("Names of the clusters that were registered with the token, in "+
					"alphabetical order; the first %d. Empty on an upstream hub, which does not count.",
					cluster.MaxTokenClusters),
				Computed: true, ElementType: types.StringType,
				PlanModifiers: []planmodifier.List{listplanmodifier.UseStateForUnknown()},
			},
			func(t token) types.List { return attribute.StringListValue(append([]string{}, t.Scope.UsedBy...)) }))
}

// planToken lets a new lifetime bring a new expiry. The hub is not asked: it knows no
// limit of a token that is used up.
func planToken(
	ctx context.Context, _ *crud.Resource, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) bool {
	if req.State.Raw.IsNull() || req.Plan.Raw.IsNull() {
		return false
	}
	plan := attribute.ValuesOf(ctx, req.Plan, &resp.Diagnostics)
	state := attribute.ValuesOf(ctx, req.State, &resp.Diagnostics)
	most, used := plan.Number("max_clusters"), state.Texts("used_by")
	if count := len(used); most > 0 && most < int64(count) {
		resp.Diagnostics.AddAttributeError(path.Root("max_clusters"),
			"The bootstrap token is used by more clusters already",
			fmt.Sprintf("max_clusters is %d, and %d clusters were registered with the token %q: %s. Use %d or more, "+
				"or make another token and destroy this one.", most, count, state.Text("token_id"),
				strings.Join(used, ", "), count))
	}
	if !resp.Diagnostics.HasError() && !plan["ttl"].Equal(state["ttl"]) {
		expires := types.StringUnknown()
		if !plan.IsSet("ttl") {
			expires = types.StringNull()
		}
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("expires_at"), expires)...)
	}
	return false
}

// completeToken puts into the Secret what the configuration does not have. The token
// itself and its groups stay in an update.
func completeToken(ctx context.Context, c *tokenChange) bool {
	if !keepsScope(ctx, c) {
		return false
	}
	wanted, live := tokenOf(c.Object), &corev1.Secret{}
	token, err := bootstraptoken.New("", "", time.Time{})
	switch {
	case err != nil:
	case c.Prior == nil:
		token.Groups, err = tokenGroups(ctx, c.Hub, c.Client, wanted.Clusters, c.Diagnostics)
	default:
		err = c.Client.Get(ctx, live, c.Object.Namespace, c.Object.Name)
		token = bootstraptoken.Parse(live)
	}
	if err != nil {
		hub.AddAPIError(c.Diagnostics, c.Client, "make "+c.What, err)
		return false
	}
	token.ID, token.Description = c.Keys[0], c.Plan.Text("description")
	if c.Prior == nil || c.Changes.In("ttl") {
		token.Expires = time.Time{}
		if lifetime, err := time.ParseDuration(wanted.TTL); err == nil {
			token.Expires = time.Now().Add(lifetime)
		}
	}
	annotations := attribute.OrEmpty(c.Object.Annotations)
	annotations[cluster.TokenRevocationAnnotation] = cluster.RevokeRequests
	*c.Object = *token.Object()
	c.Object.Annotations = annotations
	return true
}

// keepsScope reports whether the hub keeps what the configuration promises of the
// token. One that does not would take it for a token without limits.
func keepsScope(ctx context.Context, c *tokenChange) bool {
	promised, needs := []string{}, hubinfo.TokenScope
	for _, name := range []string{"allowed_labels", "client_ids", "cluster_labels", "max_clusters"} {
		if c.Plan.IsSet(name) {
			promised = append(promised, name)
		}
	}
	if c.Plan.IsSet("allowed_labels") || c.Plan.IsSet("client_ids") {
		needs = hubinfo.ClusterRegistration
	}
	if len(promised) == 0 {
		return true
	}
	knows, err := c.Hub.Has(ctx, c.Client, needs)
	switch {
	case err != nil:
		hub.AddAPIError(c.Diagnostics, c.Client, "make "+c.What, err)
	case !knows:
		c.Diagnostics.AddAttributeError(path.Root(promised[0]), "The hub ignores the scope of bootstrap tokens",
			fmt.Sprintf("%s is set, and the hub %s does not support it: its tokens register any number of clusters, "+
				"with any labels. Leave it out and keep the token short-lived, or use a muster hub.",
				strings.Join(promised, " and "), c.Client.Host()))
	}
	return err == nil && knows
}

const (
	// ttlAnnotation keeps the lifetime that the configuration asked for, which an
	// import could not know otherwise.
	ttlAnnotation = "muster-fleet.io/token-ttl"
	// clusterAnnotation keeps the cluster, for hubs that can't bind tokens.
	clusterAnnotation = "muster-fleet.io/managed-cluster"
)

// bootstrapToken is a credential with which an agent registers.
type bootstrapToken struct {
	bootstraptoken.Token
	// Clusters are whose agents the token is for; any when there are none.
	Clusters []string
	// Scope is what it may be used for beyond that. The hub keeps who used it.
	Scope cluster.TokenScope
	// TTL is how the configuration put the lifetime; empty when it did not.
	TTL string
}

// TokenSecret is where the token with an ID is.
func TokenSecret(id string) (namespace, name string) {
	return metav1.NamespaceSystem, bootstraptoken.SecretName(id)
}

// write puts into the token's Secret what Kubernetes has no field for.
func (t *bootstrapToken) write(to *corev1.Secret) {
	annotations := t.Scope.Annotations()
	if len(t.Clusters) > 0 {
		annotations[clusterAnnotation] = strings.Join(t.Clusters, ",")
	}
	if t.TTL != "" {
		annotations[ttlAnnotation] = t.TTL
	}
	to.Annotations = attribute.OrEmpty(to.Annotations)
	maps.Copy(to.Annotations, annotations)
}

// tokenOf reads a token back. A scope that can't be read counts as none: the hub
// refuses such a token.
func tokenOf(secret *corev1.Secret) *bootstrapToken {
	t := &bootstrapToken{Token: bootstraptoken.Parse(secret), TTL: secret.Annotations[ttlAnnotation]}
	if names := secret.Annotations[clusterAnnotation]; names != "" {
		t.Clusters = strings.Split(names, ",")
	}
	if bound := cluster.BoundClusters(strings.Split(t.Groups, ",")); len(bound) > 0 {
		t.Clusters = bound
	}
	if scope, err := cluster.ParseTokenScope(secret.Annotations); err == nil {
		t.Scope = scope
	}
	return t
}

// expiresAt is when the token expires, in RFC 3339; null when it does not.
func (t *bootstrapToken) expiresAt() types.String {
	if t.Expires.IsZero() {
		return types.StringNull()
	}
	return types.StringValue(t.Expires.UTC().Format(time.RFC3339))
}

// Token is what is reported of a bootstrap token on a hub. It holds no secret.
type Token struct {
	ID string
	// Clusters are whose agents the token is for; any when there are none.
	Clusters []string
	// UsedBy are the clusters that were registered with it.
	UsedBy []string
	// Secret is the object that makes it valid, without its content.
	Secret metav1.ObjectMeta
}

// tokenSecrets selects the Secrets of tokens.
func tokenSecrets() kube.ListOptions {
	return kube.ListOptions{
		Namespace: metav1.NamespaceSystem, FieldSelector: "type=" + string(corev1.SecretTypeBootstrapToken),
	}
}

// FindTokens reads the bootstrap tokens of a hub.
func FindTokens(ctx context.Context, client *kube.Client) ([]Token, error) {
	secrets := &corev1.SecretList{}
	if err := client.List(ctx, secrets, tokenSecrets()); err != nil {
		return nil, err
	}
	tokens := make([]Token, 0, len(secrets.Items))
	for i := range secrets.Items {
		t := tokenOf(&secrets.Items[i])
		tokens = append(tokens, Token{t.ID, t.Clusters, t.Scope.UsedBy, secrets.Items[i].ObjectMeta})
	}
	return tokens, nil
}

// tokenGroups are the groups that a token for clusters gets; for any cluster
// when there are no names. A hub that knows no bound tokens gets one for any
// cluster, with a warning.
func tokenGroups(
	ctx context.Context, h *hub.Hub, client *kube.Client, names []string, diags *diag.Diagnostics,
) (string, error) {
	if len(names) == 0 {
		return cluster.BootstrapGroup, nil
	}
	bound, err := h.Has(ctx, client, hubinfo.BoundBootstrapApproval)
	if err != nil {
		return "", err
	}
	var groups, quoted []string
	for _, name := range names {
		groups, quoted = append(groups, cluster.BoundBootstrapGroup(name)), append(quoted, strconv.Quote(name))
	}
	if bound {
		return strings.Join(groups, ","), nil
	}
	diags.AddWarning("The bootstrap token is not bound to its cluster",
		fmt.Sprintf("The hub %s does not know tokens that are bound to clusters, so the token for %s can register any "+
			"cluster. Keep it short-lived.", client.Host(), strings.Join(quoted, ", ")))
	return cluster.BootstrapGroup, nil
}
