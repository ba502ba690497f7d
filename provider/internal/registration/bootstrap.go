package registration

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/internal/bootstraptoken"
	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
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

// The kinds of credentials that an agent can introduce itself with.
const (
	// CredentialToken is a Kubernetes bootstrap token.
	CredentialToken = "bootstrap_token"
	// CredentialServiceAccount is a token of the bootstrap service account.
	CredentialServiceAccount = "service_account"

	// minimumServiceAccountTTL is Kubernetes' own, for requested tokens.
	minimumServiceAccountTTL = 10 * time.Minute
)

// openCredential is what is remembered of a credential between Open, Renew and
// Close: the Secret that keeps it valid.
type openCredential struct {
	Namespace string        `json:"namespace"`
	Name      string        `json:"name"`
	TTL       time.Duration `json:"ttl"`
	// Renewable says whether the credential's life can be prolonged.
	Renewable bool `json:"renewable"`
}

// Issued is a bootstrap kubeconfig that is valid until it is revoked or expires.
type Issued struct {
	openCredential
	// Token is the credential in it.
	Token   string
	Expires time.Time
	// Kubeconfig is what the agent gets.
	Kubeconfig []byte
	// Server and CA are what is in it.
	Server, CA string
}

// Issue makes a credential on the hub and the kubeconfig around it.
func (b Bootstrap) Issue(
	ctx context.Context, h *hub.Hub, client *kube.Client, diags *diag.Diagnostics,
) (Issued, error) {
	where, err := b.Endpoint(ctx, h, client)
	if err != nil {
		return Issued{}, err
	}
	made := Issued{Server: where.Server, CA: string(where.CA)}
	if b.Credential == CredentialServiceAccount {
		if b.Cluster != "" {
			diags.AddWarning("The token is not bound to its cluster",
				fmt.Sprintf("credential is %q, so the token for %q can register any cluster, as the service account "+
					"can. Where the hub takes bootstrap tokens, use credential = %q.",
					CredentialServiceAccount, b.Cluster, CredentialToken))
		}
		err = b.serviceAccountToken(ctx, client, &made)
	} else {
		err = b.bootstrapToken(ctx, h, client, &made, diags)
	}
	if err != nil {
		return Issued{}, err
	}
	made.Kubeconfig, err = kubeconfig.Config{
		Cluster: "hub", User: "bootstrap", Context: "bootstrap",
		Server: where.Server, CAData: where.CA, Token: made.Token,
	}.YAML()
	return made, err
}

// bootstrapToken makes a bootstrap token.
func (b Bootstrap) bootstrapToken(
	ctx context.Context, h *hub.Hub, client *kube.Client, made *Issued, diags *diag.Diagnostics,
) error {
	token := bootstrapToken{}
	if b.Cluster != "" {
		token.Clusters = []string{b.Cluster}
	}
	groups, err := tokenGroups(ctx, h, client, token.Clusters, diags)
	if err != nil {
		return err
	}
	expires := time.Now().Add(b.TTL)
	token.Token, err = bootstraptoken.New(groups, "Made by Terraform, which revokes it.", expires)
	if err != nil {
		return err
	}
	object := token.Object()
	token.write(object)
	b.mark(object)
	made.openCredential = openCredential{Namespace: object.Namespace, Name: object.Name, TTL: b.TTL, Renewable: true}
	made.Token, made.Expires = token.String(), token.Expires
	return client.Apply(ctx, object, kube.ApplyOptions{Manager: hub.FieldManager})
}

// serviceAccountToken asks for a token of the bootstrap service account. It
// is bound to a Secret made for it, which does nothing but exist: without it the
// token is void.
func (b Bootstrap) serviceAccountToken(ctx context.Context, client *kube.Client, made *Issued) error {
	expires := time.Now().Add(b.TTL).UTC().Format(time.RFC3339)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: cluster.Namespace, Name: "terraform-bootstrap-" + strings.ToLower(rand.Text()),
		Annotations: map[string]string{expiresAnnotation: expires},
	}}
	b.mark(secret)
	if err := client.Create(ctx, secret); err != nil {
		return fmt.Errorf("make the Secret that the token is bound to: %w", err)
	}
	made.openCredential = openCredential{Namespace: secret.Namespace, Name: secret.Name, TTL: b.TTL}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Namespace: cluster.Namespace, Name: cluster.BootstrapServiceAccount,
	}}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: ptr.To(int64(b.TTL.Seconds())),
		BoundObjectRef: &authenticationv1.BoundObjectReference{
			APIVersion: "v1", Kind: "Secret", Name: secret.Name, UID: secret.UID,
		},
	}}
	if err := client.CreateSubresource(ctx, account, "token", request); err != nil {
		if _, undo := client.Delete(ctx, secret, secret.Namespace, secret.Name, secret.UID); undo != nil {
			err = fmt.Errorf("%w (and the Secret %s/%s stays: %w)", err, secret.Namespace, secret.Name, undo)
		}
		if apierrors.IsNotFound(err) {
			err = fmt.Errorf("the hub has no service account %s/%s for registration: make it, with the role %s, or "+
				"use bootstrap tokens: "+
				"%w", cluster.Namespace, cluster.BootstrapServiceAccount, cluster.BootstrapRole, err)
		}
		return err
	}
	made.Token, made.Expires = request.Status.Token, request.Status.ExpirationTimestamp.Time
	return nil
}

// mark puts on the Secret of a credential what it is for.
func (b Bootstrap) mark(secret *corev1.Secret) {
	metav1.SetMetaDataLabel(&secret.ObjectMeta, bootstrapLabel, b.Cluster)
	if b.ClusterUID != "" {
		metav1.SetMetaDataAnnotation(&secret.ObjectMeta, madeForAnnotation, b.ClusterUID)
	}
}

// Revoke makes the credential void.
func (o openCredential) Revoke(ctx context.Context, client *kube.Client) error {
	_, err := client.Delete(ctx, &corev1.Secret{}, o.Namespace, o.Name, "")
	return err
}

// RevokeLeftOver revokes what earlier runs have handed to the cluster and could not
// revoke, and removes what is left of credentials that have expired. It goes as far
// as the caller's rights do.
func (b Bootstrap) RevokeLeftOver(ctx context.Context, client *kube.Client, now time.Time) {
	secrets := &corev1.SecretList{}
	namespace := metav1.NamespaceSystem
	if b.Credential == CredentialServiceAccount {
		namespace = cluster.Namespace
	}
	options := kube.ListOptions{Namespace: namespace, LabelSelector: bootstrapLabel}
	if err := client.List(ctx, secrets, options); err != nil {
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
	own := secret.Labels[bootstrapLabel] == b.Cluster && secret.Annotations[madeForAnnotation] == b.ClusterUID
	if b.ClusterUID != "" && own {
		return true
	}
	expires, err := time.Parse(time.RFC3339, secret.Annotations[expiresAnnotation])
	return err == nil && now.After(expires)
}

// BootstrapAttribute says what kind of bootstrap kubeconfig a resource makes.
func BootstrapAttribute(description string, validators ...validator.Object) schema.SingleNestedAttribute {
	attributes := map[string]schema.Attribute{
		"enabled": schema.BoolAttribute{
			MarkdownDescription: "Whether to make one. With `false` its Secret has to come from elsewhere. Defaults " +
				"to `true`.",
			Optional: true,
		},
		"version": schema.Int64Attribute{
			MarkdownDescription: "Raise it to hand a new bootstrap kubeconfig to the agent.",
			Optional:            true,
			Validators:          []validator.Int64{int64validator.AtLeast(0)},
		},
	}
	for name, text := range bootstrapTexts() {
		attributes[name] = text
	}
	return schema.SingleNestedAttribute{
		MarkdownDescription: description, Optional: true, Validators: validators, Attributes: attributes,
	}
}

// bootstrapTexts are the attributes of a bootstrap kubeconfig, wherever it is made.
func bootstrapTexts() map[string]schema.StringAttribute {
	short := attribute.ShortDuration
	return map[string]schema.StringAttribute{
		"credential": attribute.Optional(fmt.Sprintf("The credential that the agent registers with. `%s`, the "+
			"default, is a Kubernetes bootstrap token. `%s` is a token of the service account `%s/%s`, for hubs "+
			"whose API server takes no bootstrap tokens, as those of most cloud providers; it can register any "+
			"cluster.",
			CredentialToken, CredentialServiceAccount, cluster.Namespace, cluster.BootstrapServiceAccount),
			stringvalidator.OneOf(CredentialToken, CredentialServiceAccount)),
		"ttl": attribute.Optional(fmt.Sprintf("How long the token stays valid if it is not revoked before, such as "+
			"`30m`. At least `%s`, with a service account `%s`; defaults to `%s`.",
			short(minimumBootstrapTTL), short(minimumServiceAccountTTL), short(defaultBootstrapTTL)),
			attribute.ValidDuration(minimumBootstrapTTL)),
		"server": attribute.Optional("URL at which the agent reaches the hub. Defaults to what the hub publishes in "+
			"`kube-public/cluster-info`, then to the provider's own host.", attribute.ValidHTTPSURL()),
		"cluster_ca_certificate": attribute.Optional("PEM certificates of the authorities that vouch for the hub. "+
			"Defaults like `server`.", attribute.ValidPEM()),
	}
}

// BootstrapOf is what attributes with bootstrapTexts ask for.
func BootstrapOf(values attribute.Values, name, clusterUID string) Bootstrap {
	return Bootstrap{
		Cluster: name, ClusterUID: clusterUID,
		Credential: values.Text("credential"), TTL: parseTTL(values.Text("ttl")),
		Server: values.Text("server"), CA: values.Text("cluster_ca_certificate"),
	}
}

// CheckTTL refuses lives that Kubernetes gives no service account's token. of is the
// attribute.
func CheckTTL(of path.Path, credential, ttl string, diags *diag.Diagnostics) {
	parsed, err := time.ParseDuration(ttl)
	if err != nil || credential != CredentialServiceAccount || parsed >= minimumServiceAccountTTL {
		return
	}
	diags.AddAttributeError(of, "The token's life is too short",
		fmt.Sprintf("ttl is %q, and tokens of service accounts live for %s at least. Use a longer one, or credential "+
			"= %q.",
			ttl, attribute.ShortDuration(minimumServiceAccountTTL), CredentialToken))
}

// parseTTL is a life as the configuration puts it, or the default.
func parseTTL(ttl string) time.Duration {
	if parsed, err := time.ParseDuration(ttl); err == nil {
		return parsed
	}
	return defaultBootstrapTTL
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

// Endpoint decides where an agent's kubeconfig leads: what is configured,
// what the hub publishes about itself, and what the provider itself uses, in
// this order.
func (b Bootstrap) Endpoint(ctx context.Context, h *hub.Hub, client *kube.Client) (Endpoint, error) {
	var e Endpoint
	if b.Server == "" || b.CA == "" {
		info, err := h.Published(ctx, client, hubinfo.ClusterInfo)
		if err == nil {
			e.Server, e.CA, err = bootstraptoken.Server(info)
		}
		if errors.Is(err, bootstraptoken.ErrNoServer) {
			e.Server = client.Host()
			e.CA, err = client.CAData()
		}
		if err != nil {
			return Endpoint{}, err
		}
	}
	e.Server = cmp.Or(b.Server, e.Server)
	if b.CA != "" {
		e.CA = []byte(b.CA)
	}
	return e, nil
}
