package clusterimport

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"math/big"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

const (
	// tokenLife is how long a cluster has to join with a token before it gets
	// another one.
	tokenLife = time.Hour
	// tokenReserve is how much of it has to be left for a token to be handed out.
	tokenReserve = 10 * time.Minute

	// importAnnotation on the Secret of a bootstrap token is the UID of the import
	// that it was made for.
	importAnnotation = "muster-fleet.io/cluster-import"
)

const alphabet = "abcdefghijklmnopqrstuvwxyz0123456789"

// tokenID is the public half of an import's token: the same at each attempt.
func tokenID(imp *v1alpha1.ClusterImport) string {
	sum := sha256.Sum256([]byte(imp.UID))
	id := make([]byte, 6)
	for i := range id {
		id[i] = alphabet[int(sum[i])%len(alphabet)]
	}
	return string(id)
}

func randomText(length int) (string, error) {
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

func (c *Controller) tokenSecret(ctx context.Context, imp *v1alpha1.ClusterImport) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: cluster.TokenSecretPrefix + tokenID(imp)}
	err := c.live.Get(ctx, key, secret)
	if apierrors.IsNotFound(err) || err == nil && secret.Annotations[importAnnotation] != string(imp.UID) {
		return nil, nil
	}
	return secret, err
}

// token is a bootstrap token that is bound to the cluster. rejoin allows it to a
// cluster that has joined before.
func (c *Controller) token(ctx context.Context, imp *v1alpha1.ClusterImport, rejoin bool) (string, error) {
	secret, err := c.tokenSecret(ctx, imp)
	if err != nil {
		return "", err
	}
	if secret != nil {
		expires, err := time.Parse(time.RFC3339, string(secret.Data["expiration"]))
		usable := !rejoin || secret.Annotations[cluster.RejoinAnnotation] == imp.Name
		if err == nil && usable && c.clock.Now().Add(tokenReserve).Before(expires) {
			return string(secret.Data["token-id"]) + "." + string(secret.Data["token-secret"]), nil
		}
		if err := c.revoke(ctx, imp); err != nil {
			return "", err
		}
	}
	half, err := randomText(16)
	if err != nil {
		return "", err
	}
	secret = &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceSystem, Name: cluster.TokenSecretPrefix + tokenID(imp),
			Annotations: map[string]string{importAnnotation: string(imp.UID), cluster.TokenRevocationAnnotation: cluster.RevokeRequests},
		},
		Type: corev1.SecretTypeBootstrapToken,
		Data: map[string][]byte{
			"token-id": []byte(tokenID(imp)), "token-secret": []byte(half), "usage-bootstrap-authentication": []byte("true"),
			"auth-extra-groups": []byte(cluster.BoundBootstrapGroup(imp.Name)),
			"expiration":        []byte(c.clock.Now().Add(tokenLife).UTC().Format(time.RFC3339)),
			"description":       []byte("ClusterImport " + imp.Name),
		},
	}
	if rejoin {
		secret.Annotations[cluster.RejoinAnnotation] = imp.Name
	}
	if err := c.client.Create(ctx, secret); err != nil {
		return "", fmt.Errorf("make a bootstrap token: %w", err)
	}
	return tokenID(imp) + "." + half, nil
}

// revoke deletes the import's token, if there is one.
func (c *Controller) revoke(ctx context.Context, imp *v1alpha1.ClusterImport) error {
	secret, err := c.tokenSecret(ctx, imp)
	if err != nil || secret == nil {
		return err
	}
	if err := c.client.Delete(ctx, secret, client.Preconditions{UID: &secret.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("revoke the bootstrap token: %w", err)
	}
	return nil
}
