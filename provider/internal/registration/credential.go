package registration

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

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

// credential is a token in use.
type credential struct {
	openCredential
	Token   string
	Expires time.Time
}

// bootstrapToken makes a bootstrap token.
func (b Bootstrap) bootstrapToken(ctx context.Context, h *hub.Hub, client *kube.Client, diags *diag.Diagnostics) (credential, error) {
	groups, err := tokenGroups(ctx, h, client, b.clusters(), diags)
	if err != nil {
		return credential{}, err
	}
	token, err := newBootstrapToken(b.clusters(), groups, "Made by Terraform, which revokes it.")
	if err != nil {
		return credential{}, err
	}
	token.Expires = time.Now().Add(b.TTL)
	object := token.object()
	b.mark(object)
	if err := client.Apply(ctx, object, kube.ApplyOptions{Manager: hub.FieldManager}); err != nil {
		return credential{}, err
	}
	return credential{
		openCredential: openCredential{Namespace: object.Namespace, Name: object.Name, TTL: b.TTL, Renewable: true},
		Token:          token.String(), Expires: token.Expires,
	}, nil
}

// serviceAccountToken asks for a token of the bootstrap service account. It
// is bound to a Secret made for it, which does nothing but exist: without it the
// token is void.
func (b Bootstrap) serviceAccountToken(ctx context.Context, client *kube.Client) (credential, error) {
	id, err := randomText(TokenIDLength)
	if err != nil {
		return credential{}, err
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: "terraform-bootstrap-" + id}}
	b.mark(secret)
	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, expiresAnnotation, time.Now().Add(b.TTL).UTC().Format(time.RFC3339))
	if err := client.Create(ctx, secret); err != nil {
		return credential{}, fmt.Errorf("make the Secret that the token is bound to: %w", err)
	}
	made := openCredential{Namespace: secret.Namespace, Name: secret.Name, TTL: b.TTL}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: cluster.BootstrapServiceAccount}}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: ptr.To(int64(b.TTL.Seconds())),
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Secret", Name: secret.Name, UID: secret.UID},
	}}
	if err := client.CreateSubresource(ctx, account, "token", request); err != nil {
		if _, undo := client.Delete(ctx, secret, secret.Namespace, secret.Name, secret.UID); undo != nil {
			err = fmt.Errorf("%w (and the Secret %s/%s stays: %w)", err, secret.Namespace, secret.Name, undo)
		}
		if apierrors.IsNotFound(err) {
			err = fmt.Errorf("the hub has no service account %s/%s for registration: make it, with the role %s, or use bootstrap tokens: %w",
				cluster.Namespace, cluster.BootstrapServiceAccount, cluster.BootstrapRole, err)
		}
		return credential{}, err
	}
	return credential{openCredential: made, Token: request.Status.Token, Expires: request.Status.ExpirationTimestamp.Time}, nil
}

// revoke makes a credential void.
func (o openCredential) revoke(ctx context.Context, client *kube.Client) error {
	_, err := client.Delete(ctx, &corev1.Secret{}, o.Namespace, o.Name, "")
	return err
}
