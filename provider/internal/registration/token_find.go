package registration

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
)

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

// TokenSecret is where the token with an ID is.
func TokenSecret(id string) (namespace, name string) {
	return metav1.NamespaceSystem, tokenSecretName(id)
}

// FindTokens reads the bootstrap tokens of a hub.
func FindTokens(ctx context.Context, client *kube.Client) ([]Token, error) {
	secrets := &corev1.SecretList{}
	options := kube.ListOptions{Namespace: metav1.NamespaceSystem, FieldSelector: "type=" + string(corev1.SecretTypeBootstrapToken)}
	if err := client.List(ctx, secrets, options); err != nil {
		return nil, err
	}
	tokens := make([]Token, 0, len(secrets.Items))
	for i := range secrets.Items {
		t := tokenOf(&secrets.Items[i])
		tokens = append(tokens, Token{ID: t.ID, Clusters: t.Clusters, UsedBy: t.Scope.UsedBy, Secret: secrets.Items[i].ObjectMeta})
	}
	return tokens, nil
}
