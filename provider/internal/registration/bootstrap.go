package registration

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/kubeconfig"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

const (
	// bootstrapLabel is on the Secret of each credential that Terraform makes for a
	// run, with the name of the cluster, so that those of a killed run are found.
	bootstrapLabel = "muster-fleet.io/bootstrap-of"
	// madeForAnnotation is on such a Secret the UID of the managed cluster that the
	// credential was handed over to.
	madeForAnnotation = "muster-fleet.io/bootstrap-for"
	// expiresAnnotation is when a credential expires whose Secret nobody else removes.
	expiresAnnotation = "muster-fleet.io/expires-at"
)

// Bootstrap says what a bootstrap kubeconfig is to be like.
type Bootstrap struct {
	// Cluster is the cluster that it is for; any when it is empty.
	Cluster string
	// ClusterUID is that of the namespace kube-system in the cluster that gets it.
	// Empty where the kubeconfig is not handed to one cluster.
	ClusterUID string
	// Credential is CredentialToken or CredentialServiceAccount.
	Credential string
	// TTL is how long it is valid when it is not revoked.
	TTL time.Duration
	// Server and CA are where the agent reaches the hub and how it verifies it.
	// Empty ones are what the hub publishes about itself, or else the provider's own.
	Server, CA string
}

// Issued is a bootstrap kubeconfig that is valid until it is revoked or expires.
type Issued struct {
	credential
	// Kubeconfig is what the agent gets.
	Kubeconfig []byte
	// Server and CA are what is in it.
	Server, CA string
}

// Endpoint is where the kubeconfig leads.
func (b Bootstrap) Endpoint(ctx context.Context, h *hub.Hub, client *kube.Client) (Endpoint, error) {
	return agentEndpoint(ctx, h, client, b.Server, b.CA)
}

// Issue makes a credential on the hub and the kubeconfig around it.
func (b Bootstrap) Issue(ctx context.Context, h *hub.Hub, client *kube.Client, diags *diag.Diagnostics) (Issued, error) {
	where, err := b.Endpoint(ctx, h, client)
	if err != nil {
		return Issued{}, err
	}
	made, err := b.credential(ctx, h, client, diags)
	if err != nil {
		return Issued{}, err
	}
	config, err := kubeconfig.Config{
		Cluster: "hub", User: "bootstrap", Context: "bootstrap",
		Server: where.Server, CAData: where.CA, Token: made.Token,
	}.YAML()
	return Issued{credential: made, Kubeconfig: config, Server: where.Server, CA: string(where.CA)}, err
}

// credential makes the credential of the kind that is asked for.
func (b Bootstrap) credential(ctx context.Context, h *hub.Hub, client *kube.Client, diags *diag.Diagnostics) (credential, error) {
	if b.Credential != CredentialServiceAccount {
		return b.bootstrapToken(ctx, h, client, diags)
	}
	if b.Cluster != "" {
		diags.AddWarning("The token is not bound to its cluster",
			fmt.Sprintf("credential is %q, so the token for %s can register any cluster, as the service account can. Where the hub takes bootstrap tokens, use credential = %q.",
				CredentialServiceAccount, strings.Join(quoted(b.clusters()), ", "), CredentialToken))
	}
	return b.serviceAccountToken(ctx, client)
}

// clusters are those that the credential is bound to.
func (b Bootstrap) clusters() []string {
	if b.Cluster == "" {
		return nil
	}
	return []string{b.Cluster}
}

// mark puts on the Secret of a credential what it is for.
func (b Bootstrap) mark(secret *corev1.Secret) {
	metav1.SetMetaDataLabel(&secret.ObjectMeta, bootstrapLabel, b.Cluster)
	if b.ClusterUID != "" {
		metav1.SetMetaDataAnnotation(&secret.ObjectMeta, madeForAnnotation, b.ClusterUID)
	}
}

// Revoke makes the credential void.
func (i Issued) Revoke(ctx context.Context, client *kube.Client) error { return i.revoke(ctx, client) }

// RevokeLeftOver revokes what earlier runs have handed to the cluster and could not
// revoke, and removes what is left of credentials that have expired. It goes as far
// as the caller's rights do.
func (b Bootstrap) RevokeLeftOver(ctx context.Context, client *kube.Client, now time.Time) {
	secrets := &corev1.SecretList{}
	namespace := metav1.NamespaceSystem
	if b.Credential == CredentialServiceAccount {
		namespace = cluster.Namespace
	}
	if err := client.List(ctx, secrets, kube.ListOptions{Namespace: namespace, LabelSelector: bootstrapLabel}); err != nil {
		return // They expire by themselves.
	}
	for _, secret := range secrets.Items {
		if b.leftOver(&secret, now) {
			_, _ = client.Delete(ctx, &corev1.Secret{}, secret.Namespace, secret.Name, secret.UID)
		}
	}
}

// leftOver reports whether nobody needs the credential of a Secret any more, now
// that the cluster has what it needs.
func (b Bootstrap) leftOver(secret *corev1.Secret, now time.Time) bool {
	if b.ClusterUID != "" && secret.Labels[bootstrapLabel] == b.Cluster && secret.Annotations[madeForAnnotation] == b.ClusterUID {
		return true
	}
	expires, err := time.Parse(time.RFC3339, secret.Annotations[expiresAnnotation])
	return err == nil && now.After(expires)
}

// CheckTTL refuses lives that Kubernetes gives no service account's token. of is the
// attribute.
func CheckTTL(of path.Path, credential, ttl string, diags *diag.Diagnostics) {
	parsed, err := time.ParseDuration(ttl)
	if err != nil || credential != CredentialServiceAccount || parsed >= minimumServiceAccountTTL {
		return
	}
	diags.AddAttributeError(of, "The token's life is too short",
		fmt.Sprintf("ttl is %q, and tokens of service accounts live for %s at least. Use a longer one, or credential = %q.", ttl, attribute.ShortDuration(minimumServiceAccountTTL), CredentialToken))
}

// ParseTTL is a life as the configuration puts it, or the default.
func ParseTTL(ttl string) time.Duration {
	if parsed, err := time.ParseDuration(ttl); err == nil {
		return parsed
	}
	return defaultBootstrapTTL
}

// What is said about the attributes of a bootstrap kubeconfig, wherever it is made.
func credentialDescription() string {
	return fmt.Sprintf("The credential that the agent registers with. `%s`, the default, is a Kubernetes bootstrap token. `%s` is a token of the service account `%s/%s`, for hubs whose API server takes no bootstrap tokens, as those of most cloud providers; it can register any cluster.",
		CredentialToken, CredentialServiceAccount, cluster.Namespace, cluster.BootstrapServiceAccount)
}

func ttlDescription() string {
	return fmt.Sprintf("How long the token stays valid if it is not revoked before, such as `30m`. At least `%s`, with a service account `%s`; defaults to `%s`.",
		attribute.ShortDuration(minimumBootstrapTTL), attribute.ShortDuration(minimumServiceAccountTTL), attribute.ShortDuration(defaultBootstrapTTL))
}

const (
	serverDescription = "URL at which the agent reaches the hub. Defaults to what the hub publishes in `kube-public/cluster-info`, then to the provider's own host."
	caDescription     = "PEM certificates of the authorities that vouch for the hub. Defaults like `server`."
)
