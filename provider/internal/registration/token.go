package registration

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"

	"github.com/muster-fleet/terraform-provider-muster/internal/bootstraptoken"
	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// The form of bootstrap tokens, which is Kubernetes' own.
const (
	GroupsKey = bootstrapapi.BootstrapTokenExtraGroupsKey

	TokenIDLength     = bootstrapapi.BootstrapTokenIDBytes
	TokenSecretLength = bootstrapapi.BootstrapTokenSecretBytes
)

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
