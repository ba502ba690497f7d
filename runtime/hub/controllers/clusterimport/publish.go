package clusterimport

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/kubeconfig"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// An import may say where users reach the cluster: at the server of the kubeconfig.

// unpublishable says why users could not reach a cluster as the hub does; empty when
// they can, or nobody asked.
func unpublishable(imp *v1alpha1.ClusterImport, to *kubeconfig.Contained) string {
	if name := to.Config.TLSClientConfig.ServerName; imp.Spec.PublishServer && name != "" {
		return fmt.Sprintf("spec.publishServer is set, and users can't verify its server %s by the name %q of "+
			"tls-server-name: "+
			"give a server whose host is in its certificate, or set spec.publishServer to false", to.Server.Host, name)
	}
	return ""
}

// published are the addresses of a cluster with the one that an import publishes, which
// is nil when it publishes none, first, and without the former one.
func published(
	before []clusterv1.ClientConfig, former string, wanted *clusterv1.ClientConfig,
) []clusterv1.ClientConfig {
	after := slices.DeleteFunc(slices.Clone(before), func(is clusterv1.ClientConfig) bool {
		return former != "" && is.URL == former || wanted != nil && is.URL == wanted.URL
	})
	if wanted != nil {
		after = slices.Insert(after, 0, *wanted)
	}
	return after
}

// publish puts the server and the authority of the kubeconfig among the addresses of the
// cluster, and reports whether that changed them.
func (j *job) publish() (changed bool) {
	var wanted *clusterv1.ClientConfig
	if j.imp.Spec.PublishServer {
		ca := j.server.Config.TLSClientConfig.CAData
		wanted = &clusterv1.ClientConfig{URL: j.server.Server.String(), CABundle: ca}
	}
	before := j.cluster.Spec.ManagedClusterClientConfigs
	return setAddresses(j.cluster, published(before, j.status.PublishedServer, wanted))
}

func setAddresses(mc *clusterv1.ManagedCluster, after []clusterv1.ClientConfig) (changed bool) {
	if len(after) == 0 {
		after = nil
	}
	if equality.Semantic.DeepEqual(mc.Spec.ManagedClusterClientConfigs, after) {
		return false
	}
	mc.Spec.ManagedClusterClientConfigs = after
	return true
}

// withdraw takes a published address away when the import publishes none any more.
func (c *Controller) withdraw(ctx context.Context, j *job) error {
	if j.imp.Spec.PublishServer || j.status.PublishedServer == "" {
		return nil
	}
	if j.cluster != nil {
		mc := j.cluster.DeepCopy()
		_, err := patch.Object(ctx, c.client, mc, func() bool {
			return setAddresses(mc, published(mc.Spec.ManagedClusterClientConfigs, j.status.PublishedServer, nil))
		})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("change the ManagedCluster: %w", err)
		}
	}
	j.status.PublishedServer = ""
	return nil
}
