package install

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

const (
	// keysName is the config map that records the keys that a store was made
	// with.
	keysName = "muster-hub-keys"
	// serviceAccountKey is its key for Keys.ServiceAccountKeyHash.
	serviceAccountKey = "serviceAccountKey"
)

// Keys identify the keys that the certificates and tokens in a hub's store
// depend on.
type Keys struct {
	// CAData has the certificate of the hub's authority, PEM-encoded, and those of
	// the authorities before that are still trusted.
	CAData []byte
	// ServiceAccountKeyHash identifies the key that signs service account
	// tokens.
	ServiceAccountKeyHash string
}

// SameKeys fails when a hub's store was made with other keys: the hub would
// refuse the certificates and tokens that were made with those.
func SameKeys(ctx context.Context, c client.Reader, keys Keys) error {
	info := &corev1.ConfigMap{}
	err := c.Get(ctx, client.ObjectKey{Namespace: metav1.NamespacePublic, Name: hubinfo.ClusterInfo}, info)
	if err != nil {
		return client.IgnoreNotFound(err) // a new store
	}
	published, err := clientcmd.Load([]byte(info.Data["kubeconfig"]))
	if err != nil {
		return fmt.Errorf("read kube-public/cluster-info: %w", err)
	}
	for _, x := range published.Clusters {
		if !hubinfo.ShareCertificate(x.CertificateAuthorityData, keys.CAData) {
			return errors.New("the store was made by a hub with another certificate authority")
		}
	}
	known := &corev1.ConfigMap{}
	err = c.Get(ctx, client.ObjectKey{Namespace: cluster.HubNamespace, Name: keysName}, known)
	if err != nil {
		return client.IgnoreNotFound(err) // a store from before they were remembered
	}
	if hash := known.Data[serviceAccountKey]; hash != "" && hash != keys.ServiceAccountKeyHash {
		return errors.New("the store was made by a hub with another service-account key")
	}
	return nil
}

func (k Keys) configMap() *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster.HubNamespace, Name: keysName},
		Data:       map[string]string{serviceAccountKey: k.ServiceAccountKeyHash},
	}
}
