package crud

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// InCluster writes into the namespace of a managed cluster. The namespace of a cluster
// that is just being accepted may not be there yet: that is waited for, but only for a
// cluster that exists. It reports whether that went well.
func InCluster(ctx context.Context, client *kube.Client, namespace, doing string, timeout time.Duration, diags *diag.Diagnostics, write func() error) bool {
	for {
		err := write()
		if err == nil {
			return true
		}
		if !kube.IsNamespaceNotFound(err, namespace) {
			hub.AddAPIError(diags, client, doing, err)
			return false
		}
		managed := &clusterv1.ManagedCluster{}
		switch err := client.Get(ctx, managed, "", namespace); {
		case kube.IsNotFound(err, namespace):
			diags.AddError("Cannot "+doing, fmt.Sprintf("The hub %s has no managed cluster %q. Create it with muster_managed_cluster and refer to that resource's name, or correct managed_cluster.", client.Host(), namespace))
			return false
		case err != nil:
			hub.AddAPIError(diags, client, doing, err)
			return false
		}
		err = client.Wait(ctx, &corev1.Namespace{}, "", namespace, func(exists bool) (bool, error) { return exists, nil })
		if hub.IsTimeout(err) {
			diags.AddError("Cannot "+doing, fmt.Sprintf("The managed cluster %q exists, but the hub gave it no namespace within %s, which it does when the cluster is accepted. "+
				"Add a muster_cluster_acceptance for it and let this resource depend on that. Conditions:\n%s", namespace, timeout, hub.DescribeConditions(managed.Status.Conditions, time.Now())))
			return false
		}
		if err != nil {
			hub.AddAPIError(diags, client, doing, err)
			return false
		}
	}
}
