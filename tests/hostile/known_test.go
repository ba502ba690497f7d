package hostile

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testfleet"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// What every identity may do least of all: look into what is another's.
func TestOthersThings(t *testing.T) {
	ctx := context.Background()
	agent := hub.Joined(t, "others-a", "a")
	hub.Joined(t, "others-b", "a")
	_, bound := hub.BootstrapToken(t, cluster.BoundBootstrapGroup("others-a"), nil)
	tenant := hub.Tenant(t, "others-tenant", "tenant", rbacv1.PolicyRule{
		APIGroups: []string{"cluster.open-cluster-management.io"}, Resources: []string{"placements"}, Verbs: []string{"*"},
	})
	for who, config := range map[string]client.Client{
		"an agent":              testfleet.Client(t, agent),
		"a bound token":         testfleet.Client(t, hub.WithToken(bound)),
		"a tenant":              testfleet.Client(t, tenant),
		"nobody in particular ": testfleet.Client(t, hub.WithToken("")),
	} {
		refused(t, who+" lists another cluster's works", config.List(ctx, &workv1.ManifestWorkList{}, client.InNamespace("others-b")))
		refused(t, who+" lists all works", config.List(ctx, &workv1.ManifestWorkList{}))
		refused(t, who+" lists all clusters", config.List(ctx, &clusterv1.ManagedClusterList{}))
		refused(t, who+" reads Secrets", config.List(ctx, &corev1.SecretList{}))
		refused(t, who+" reads roles", config.List(ctx, &rbacv1.ClusterRoleList{}))
	}
}
