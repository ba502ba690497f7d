package registration

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/identity"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
)

// rewriteBootstrap lets the bootstrap kubeconfig in the Secret lead where the hub
// is now, when it leads to an earlier endpoint of the same hub. The identity's
// Secret is written before, so that a kill in between does no harm: the old
// endpoint counts as the same hub there. A file stays as it is.
func (r *Registration) rewriteBootstrap(ctx context.Context, id identity.Identity) error {
	if r.several() || !r.leadsToFormer(id, r.source.inSecret()) {
		return nil
	}
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		secret := &corev1.Secret{}
		key := client.ObjectKey{Namespace: r.Namespace, Name: cluster.BootstrapSecret}
		if err := r.Local.Get(ctx, key, secret); err != nil {
			return client.IgnoreNotFound(err)
		}
		if !r.leadsToFormer(id, secret.Data[cluster.KubeconfigKey]) {
			return nil
		}
		config, err := clientcmd.Load(secret.Data[cluster.KubeconfigKey])
		if err != nil {
			return err
		}
		entry := config.Clusters[config.Contexts[config.CurrentContext].Cluster]
		entry.Server, entry.CertificateAuthorityData, entry.CertificateAuthority = id.Hub.Server, id.Hub.CAData, ""
		content, err := clientcmd.Write(*config)
		if err != nil {
			return err
		}
		secret.Data[cluster.KubeconfigKey] = content
		if err := r.Local.Update(ctx, secret, client.FieldOwner(muster.AgentFieldManager)); err != nil {
			return fmt.Errorf("write the Secret %s: %w", key, err)
		}
		r.Log.Info("the bootstrap kubeconfig leads to the hub's new endpoint", "secret", key, "to", id.Hub.Server)
		return nil
	})
}

// leadsToFormer reports whether a bootstrap kubeconfig leads to an endpoint that
// counts as the hub and is not the present one.
func (r *Registration) leadsToFormer(id identity.Identity, content []byte) bool {
	if len(content) == 0 {
		return false
	}
	b, err := identity.ParseBootstrap(content, "")
	return err == nil && !b.Endpoint.Equal(id.Hub) && id.Differs(b.Endpoint) == ""
}
