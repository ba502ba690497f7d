package action

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/action/schema"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// denyCluster is muster_deny_cluster.
func denyCluster() declaration {
	return declaration{
		name: "deny_cluster",
		description: "Denies a cluster: sets `hubAcceptsClient` to false and waits until the hub has withdrawn the " +
			"rights " +
			"of its agent. What runs in the cluster keeps running, and its works stay on the hub. " +
			"A denied cluster stays denied until it is accepted again; its agent then goes on with the certificate " +
			"that " +
			"it has.\n\n" +
			"A cluster that a `muster_cluster_acceptance` accepts is better denied there, with `accepted = false`: " +
			"its " +
			"next apply would accept the cluster again, so the action refuses.",
		attributes: map[string]schema.Attribute{
			clusterName: required("Name of the managed cluster.", attribute.ValidClusterName()),
			"force_conflicts": flag("Whether to deny the cluster also when a `muster_cluster_acceptance` accepts it, " +
				"for " +
				"emergencies. Change that resource before its next apply."),
		},
		takes: "the hub", timeout: 2 * time.Minute,
		doing: "deny managed cluster", to: []string{clusterName}, do: deny,
	}
}

// deny withdraws a cluster's acceptance, and waits until the hub has withdrawn the
// rights of its agent. What runs in the cluster keeps running.
func deny(ctx context.Context, r *run) error {
	object, err := find(ctx, r.client, r.cluster)
	if err != nil {
		return err
	}
	switch {
	case !object.Spec.AcceptsClient() && !grantedRights(object):
		r.say("%s is not accepted. Nothing is to be done.", r.cluster)
		return nil
	case object.Spec.AcceptsClient() && acceptedByTerraform(object) && !r.Bool("force_conflicts"):
		return refuse(fmt.Sprintf("Terraform accepts managed cluster %q", r.cluster),
			"A muster_cluster_acceptance has set hubAcceptsClient, and the next apply of its configuration would "+
				"accept "+
				"the cluster again. Set accepted = false in that resource and apply, or remove it with its next "+
				"apply. "+
				"To deny the cluster at once, for example because its credentials have leaked, set force_conflicts, "+
				"and "+
				"change the configuration before its next apply.")
	case object.Spec.AcceptsClient():
		patch := map[string]any{
			"metadata": map[string]any{"uid": object.UID}, "spec": map[string]any{"hubAcceptsClient": false},
		}
		if err := r.client.MergePatch(ctx, object, hub.AcceptanceManager, patch); err != nil {
			return err
		}
		r.say("%s is denied. The hub withdraws the rights of its agent.", r.cluster)
	default:
		r.say("%s is denied already. The hub withdraws the rights of its agent.", r.cluster)
	}
	if err := r.awaitDenial(ctx, object); err != nil {
		return err
	}
	r.say("The hub has withdrawn the rights of the agent in %s. What runs in the cluster keeps running.", r.cluster)
	works := &workv1.ManifestWorkList{}
	if r.client.List(ctx, works, kube.ListOptions{Namespace: r.cluster}) == nil && len(works.Items) > 0 {
		r.say("%s of it stay on the hub. The agent gets no changes of them; it may only clean up behind those that "+
			"are deleted.", plural(len(works.Items), "work"))
	}
	return nil
}

// awaitDenial waits until the hub has withdrawn the rights.
func (r *run) awaitDenial(ctx context.Context, object *clusterv1.ManagedCluster) error {
	wait := func(ctx context.Context) error {
		return r.client.Wait(ctx, object, "", r.cluster, func(exists bool) (bool, error) {
			if exists && object.Spec.AcceptsClient() {
				return false, refuse(fmt.Sprintf("Managed cluster %q is accepted again", r.cluster),
					"Somebody has set hubAcceptsClient to true since it was denied: a person, a "+
						"muster_cluster_acceptance of another configuration, or a controller that accepts clusters. "+
						"Its "+
						"managers are in: kubectl get managedcluster %s -o yaml --show-managed-fields", r.cluster)
			}
			return !exists || !grantedRights(object), nil
		})
	}
	late := func() error {
		return refuse(fmt.Sprintf("The hub has not withdrawn the rights of managed cluster %q", r.cluster),
			"hubAcceptsClient is false, but within %s the hub's registration controller has not reported that it has "+
				"withdrawn the rights. Conditions:\n%s\n\nCheck that the controller runs. Next:\n"+
				"  kubectl describe managedcluster %s",
			r.timeout, hub.DescribeConditions(object.Status.Conditions, r.Clock.Now()), r.cluster)
	}
	return r.wait(ctx, nil, wait, late, fmt.Sprintf("Managed cluster %q is denied. The hub withdraws the rights of "+
		"its "+
		"agent, which nobody waits for any more.", r.cluster))
}

func grantedRights(object *clusterv1.ManagedCluster) bool {
	return meta.IsStatusConditionTrue(object.Status.Conditions, cluster.ConditionHubAccepted)
}

// acceptedByTerraform reports whether a muster_cluster_acceptance has accepted the
// cluster. After a denial the field is owned under the same name, and false.
func acceptedByTerraform(object metav1.Object) bool {
	return crud.FieldsOf(object, hub.AcceptanceManager).Has("spec", "hubAcceptsClient")
}
