package clusterimport

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"math/big"
	"strconv"
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
	// importRejoinAnnotation on such a Secret is the counter rejoin for which the
	// token lets the cluster join again.
	importRejoinAnnotation = "muster-fleet.io/cluster-import-rejoin"
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

// credential is a bootstrap kubeconfig for a cluster whose agent has no identity; nil
// when it gets none. has says that it has one already. A cluster that has joined gets
// none because of what its server says: somebody with the right to it has to ask.
func (c *Controller) credential(ctx context.Context, j *job, to endpoint, has bool) ([]byte, error) {
	var token string
	var err error
	switch {
	case j.cluster.HasAgent():
		token, err = c.rejoinToken(ctx, j)
		j.rejoins = token != ""
	case j.cluster.Spec.AcceptsClient() || !has:
		token, err = c.token(ctx, j.imp, 0)
	}
	if token == "" || err != nil {
		return nil, err
	}
	return to.bootstrap(token)
}

// rejoinToken is a token with which the cluster joins again, once, because the counter
// rejoin was raised; empty where that was not asked for, or was used up. The import is
// read from the server: a cache that is late would repeat the permission.
func (c *Controller) rejoinToken(ctx context.Context, j *job) (string, error) {
	live := &v1alpha1.ClusterImport{}
	if err := c.live.Get(ctx, client.ObjectKeyFromObject(j.imp), live); err != nil {
		return "", fmt.Errorf("read the import: %w", err)
	}
	asked := j.imp.Spec.Rejoin
	if asked == 0 || live.UID != j.imp.UID || live.Generation != j.imp.Generation || !j.cluster.Spec.AcceptsClient() {
		return "", nil
	}
	if live.Status.Rejoined >= asked {
		secret, err := c.tokenSecret(ctx, j.imp)
		counter := strconv.FormatInt(asked, 10)
		if err != nil || secret == nil || secret.Annotations[importRejoinAnnotation] != counter || !c.usable(secret, 0) {
			return "", err
		}
		return tokenIn(secret), nil
	}
	token, err := c.token(ctx, j.imp, asked)
	if err == nil {
		j.status.Rejoined = asked
		c.record(j.imp, corev1.EventTypeNormal, "RejoinAllowed", "the cluster may join again, once, until %s",
			c.clock.Now().Add(tokenLife).UTC().Format(time.RFC3339))
	}
	return token, err
}

func tokenIn(secret *corev1.Secret) string {
	return string(secret.Data["token-id"]) + "." + string(secret.Data["token-secret"])
}

// usable reports whether a token lives for so much longer.
func (c *Controller) usable(secret *corev1.Secret, reserve time.Duration) bool {
	expires, err := time.Parse(time.RFC3339, string(secret.Data["expiration"]))
	return err == nil && c.clock.Now().Add(reserve).Before(expires)
}

// token is a bootstrap token that is bound to the cluster. With rejoin, a counter, it
// lets a cluster join again that has joined before.
func (c *Controller) token(ctx context.Context, imp *v1alpha1.ClusterImport, rejoin int64) (string, error) {
	secret, err := c.tokenSecret(ctx, imp)
	if err != nil {
		return "", err
	}
	counter := ""
	if rejoin > 0 {
		counter = strconv.FormatInt(rejoin, 10)
	}
	if secret != nil {
		asked := secret.Annotations[importRejoinAnnotation] == counter && rejoins(secret) == (rejoin > 0)
		if asked && c.usable(secret, tokenReserve) {
			return tokenIn(secret), nil
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
	if rejoin > 0 {
		secret.Annotations[cluster.RejoinAnnotation] = imp.Name
		secret.Annotations[importRejoinAnnotation] = counter
	}
	if err := c.client.Create(ctx, secret); err != nil {
		return "", fmt.Errorf("make a bootstrap token: %w", err)
	}
	return tokenIn(secret), nil
}

// rejoins reports whether a token lets a cluster join again, or has.
func rejoins(secret *corev1.Secret) bool {
	return secret.Annotations[cluster.RejoinAnnotation] != "" || secret.Annotations[cluster.RejoinedAnnotation] != ""
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
