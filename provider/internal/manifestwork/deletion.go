package manifestwork

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// describeDeletion says what keeps a work that should be gone.
func describeDeletion(ctx context.Context, client *kube.Client, object manifestWork, timeout time.Duration) string {
	now := time.Now()
	lines := []string{
		fmt.Sprintf("The work was still there %s after its deletion was asked for.", timeout),
		hub.DescribeDeletion(object, now),
		hub.DescribeConditions(object.Status.Conditions, now),
	}
	away := describeCluster(ctx, client, object.Namespace, now)
	if len(away) == 0 {
		return attribute.JoinLines(append(lines, "",
			"The cluster is available, so its agent is at it. What holds the objects there, in the cluster:",
			"  kubectl get appliedmanifestworks",
			"  kubectl describe KIND NAME    # its finalizers, and what they wait for",
			"Apply again when they are gone."))
	}
	lines = append(lines, away...)
	return attribute.JoinLines(append(lines, "",
		"Apply again when the agent is back. "+crud.LostAdvice(object.Namespace),
		"or give the objects of this work alone up:",
		fmt.Sprintf("  kubectl patch manifestwork -n %s %s --type=merge -p '{\"metadata\":{\"finalizers\":null}}'",
			object.Namespace, object.Name)))
}

// describeCluster says that a cluster is away or gone, if it is and the hub answers soon.
func describeCluster(ctx context.Context, client *kube.Client, name string, now time.Time) []string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	managed := &clusterv1.ManagedCluster{}
	err := client.Get(ctx, managed, "", name)
	if kube.IsNotFound(err, name) {
		return []string{fmt.Sprintf("The hub has no managed cluster %q any more.", name)}
	}
	if err != nil || meta.IsStatusConditionTrue(managed.Status.Conditions, cluster.ConditionAvailable) {
		return nil
	}
	return []string{
		fmt.Sprintf("The cluster %q is not available:", name),
		hub.DescribeConditions(managed.Status.Conditions, now),
	}
}
