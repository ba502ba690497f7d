package registration

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// The form of bootstrap tokens, which is Kubernetes' own.
const (
	tokenNamePrefix = "bootstrap-token-"
	tokenIDKey      = "token-id"
	tokenSecretKey  = "token-secret"
	expirationKey   = "expiration"
	descriptionKey  = "description"
	GroupsKey       = "auth-extra-groups"

	TokenIDLength     = 6
	TokenSecretLength = 16

	// ttlAnnotation keeps the lifetime that the configuration asked for, which an
	// import could not know otherwise.
	ttlAnnotation = "muster-fleet.io/token-ttl"
	// clusterAnnotation keeps the cluster, for hubs that can't bind tokens.
	clusterAnnotation = "muster-fleet.io/managed-cluster"
)

// bootstrapToken is a credential with which an agent registers.
type bootstrapToken struct {
	ID, Secret string
	// Clusters are whose agents the token is for; any when there are none.
	Clusters []string
	// Scope is what it may be used for beyond that. The hub keeps who used it.
	Scope cluster.TokenScope
	// TakesRequests has the hub delete undecided certificate requests that were
	// made with the token together with it.
	TakesRequests bool
	Groups        string
	Description   string
	// Expires is when the hub stops taking the token; zero is never.
	Expires time.Time
	// TTL is how the configuration put the lifetime; empty when it did not.
	TTL string
}

// String is the token as it is presented.
func (t bootstrapToken) String() string { return t.ID + "." + t.Secret }

// newBootstrapToken makes one up.
func newBootstrapToken(clusters []string, groups, description string) (bootstrapToken, error) {
	id, err := randomText(TokenIDLength)
	if err != nil {
		return bootstrapToken{}, err
	}
	secret, err := randomText(TokenSecretLength)
	return bootstrapToken{ID: id, Secret: secret, Clusters: clusters, Groups: groups, Description: description}, err
}

// randomText is unguessable text of lower-case letters and digits.
func randomText(length int) (string, error) {
	const alphabet = "abcdefghijklmnopqrstuvwxyz0123456789"
	text := make([]byte, length)
	for i := range text {
		n, err := rand.Int(rand.Reader, big.NewInt(int64(len(alphabet))))
		if err != nil {
			return "", fmt.Errorf("make a random token: %w", err)
		}
		text[i] = alphabet[n.Int64()]
	}
	return string(text), nil
}

func tokenSecretName(id string) string { return tokenNamePrefix + id }

// object is the Secret that makes the token valid.
func (t bootstrapToken) object() *corev1.Secret {
	data := map[string][]byte{
		tokenIDKey:                       []byte(t.ID),
		tokenSecretKey:                   []byte(t.Secret),
		"usage-bootstrap-authentication": []byte("true"),
		GroupsKey:                        []byte(t.Groups),
	}
	if t.Description != "" {
		data[descriptionKey] = []byte(t.Description)
	}
	if !t.Expires.IsZero() {
		data[expirationKey] = []byte(t.Expires.UTC().Format(time.RFC3339))
	}
	secret := &corev1.Secret{Type: corev1.SecretTypeBootstrapToken, Data: data}
	secret.Namespace, secret.Name = metav1.NamespaceSystem, tokenSecretName(t.ID)
	secret.Labels = map[string]string{"app": "cluster-manager"} // by which clusteradm finds tokens
	secret.Annotations = t.Scope.Annotations()
	if len(t.Clusters) > 0 {
		secret.Annotations[clusterAnnotation] = strings.Join(t.Clusters, ",")
	}
	if t.TakesRequests {
		secret.Annotations[cluster.TokenRevocationAnnotation] = cluster.RevokeRequests
	}
	if t.TTL != "" {
		secret.Annotations[ttlAnnotation] = t.TTL
	}
	return secret
}

// tokenOf reads a token back. A scope that can't be read counts as none: the hub
// refuses such a token.
func tokenOf(secret *corev1.Secret) bootstrapToken {
	t := bootstrapToken{
		ID:            string(secret.Data[tokenIDKey]),
		Secret:        string(secret.Data[tokenSecretKey]),
		Groups:        string(secret.Data[GroupsKey]),
		Description:   string(secret.Data[descriptionKey]),
		TTL:           secret.Annotations[ttlAnnotation],
		TakesRequests: secret.Annotations[cluster.TokenRevocationAnnotation] == cluster.RevokeRequests,
	}
	if names := secret.Annotations[clusterAnnotation]; names != "" {
		t.Clusters = strings.Split(names, ",")
	}
	if bound := cluster.BoundClusters(strings.Split(t.Groups, ",")); len(bound) > 0 {
		t.Clusters = bound
	}
	if scope, err := cluster.ParseTokenScope(secret.Annotations); err == nil {
		t.Scope = scope
	}
	if expires, err := time.Parse(time.RFC3339, string(secret.Data[expirationKey])); err == nil {
		t.Expires = expires
	}
	return t
}

// tokenGroups are the groups that a token for clusters gets; for any cluster
// when there are no names. A hub that knows no bound tokens gets one for any
// cluster, with a warning.
func tokenGroups(ctx context.Context, h *hub.Hub, client *kube.Client, names []string, diags *diag.Diagnostics) (string, error) {
	if len(names) == 0 {
		return cluster.BootstrapGroup, nil
	}
	bound, err := h.Has(ctx, client, hubinfo.BoundBootstrapApproval)
	if err != nil {
		return "", err
	}
	if bound {
		groups := make([]string, 0, len(names))
		for _, name := range names {
			groups = append(groups, cluster.BoundBootstrapGroup(name))
		}
		return strings.Join(groups, ","), nil
	}
	diags.AddWarning("The bootstrap token is not bound to its cluster",
		fmt.Sprintf("The hub %s does not know tokens that are bound to clusters, so the token for %s can register any cluster. Keep it short-lived.", client.Host(), strings.Join(quoted(names), ", ")))
	return cluster.BootstrapGroup, nil
}

func quoted(names []string) []string {
	out := make([]string, 0, len(names))
	for _, name := range names {
		out = append(out, strconv.Quote(name))
	}
	return out
}

// Endpoint is where agents reach the hub and how they verify it.
type Endpoint struct {
	Server string
	CA     []byte
}

// Equal reports whether both lead to the same server by the same authorities.
func (e Endpoint) Equal(other Endpoint) bool {
	return e.Server == other.Server && bytes.Equal(bytes.TrimSpace(e.CA), bytes.TrimSpace(other.CA))
}

// publishedEndpoint reads what the hub says about itself in
// kube-public/cluster-info. ok is false when it says nothing.
func publishedEndpoint(ctx context.Context, h *hub.Hub, client *kube.Client) (e Endpoint, ok bool, err error) {
	info, err := h.Published(ctx, client, hubinfo.ClusterInfo)
	if err != nil || info == nil {
		return Endpoint{}, false, err
	}
	config, err := clientcmd.Load([]byte(info["kubeconfig"]))
	if err != nil {
		return Endpoint{}, false, fmt.Errorf("read where the hub is from ConfigMap %s/%s: it holds no kubeconfig: %w", metav1.NamespacePublic, hubinfo.ClusterInfo, err)
	}
	for _, c := range config.Clusters {
		if c.Server != "" {
			return Endpoint{Server: c.Server, CA: c.CertificateAuthorityData}, true, nil
		}
	}
	return Endpoint{}, false, nil
}

// agentEndpoint decides where an agent's kubeconfig leads: what is configured,
// what the hub publishes about itself, and what the provider itself uses, in
// this order.
func agentEndpoint(ctx context.Context, h *hub.Hub, client *kube.Client, server, ca string) (Endpoint, error) {
	configured := Endpoint{Server: server, CA: []byte(ca)}
	if server != "" && ca != "" {
		return configured, nil
	}
	found, ok, err := publishedEndpoint(ctx, h, client)
	if err != nil {
		return Endpoint{}, err
	}
	if !ok {
		found.Server = client.Host()
		if found.CA, err = client.CAData(); err != nil {
			return Endpoint{}, err
		}
	}
	if server != "" {
		found.Server = server
	}
	if ca != "" {
		found.CA = configured.CA
	}
	return found, nil
}
