package clusterimport

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

type (
	clusterImport = *v1alpha1.ClusterImport
	change        = crud.Change[clusterImport]
)

// Import is muster_cluster_import.
func Import() crud.Declared {
	return &crud.Kind[clusterImport]{
		Type: "cluster_import", Noun: "cluster import", Empty: &v1alpha1.ClusterImport{},
		Description: "Has the hub install the agent in a cluster, through a kubeconfig that it forgets when the " +
			"cluster has joined. " +
			"It is for clusters that Terraform can't reach and the hub can; otherwise `muster_klusterlet` installs " +
			"the agent, " +
			"and the hub never sees a kubeconfig. A cluster has one of the two.\n\n" +
			"Options, the hub's address, and `redeploy` roll the agent when they change: " +
			"the cluster keeps its identity and does not register again.\n\n" +
			"Destroying it leaves the agent in the cluster, and the managed cluster on the hub. " +
			"It revokes the bootstrap token and deletes the kubeconfig. To let the cluster go, and remove the " +
			"agent from it: " +
			"`muster detach CLUSTER --cluster-kubeconfig FILE`.\n\n" +
			"A cluster that has joined never joins again because of an import alone: see `rejoin`, " +
			"`cluster_authority`, " +
			"and the guide [Clusters that the hub installs](../guides/cluster-imports.md).\n\n" +
			"Needs a muster hub with the feature gate `ClusterImport`, which is off by default: " +
			"`muster hub --feature-gates ClusterImport=true`.",
		Keys: []crud.Key{{
			Name: "name",
			Description: "Name of the import, and of the managed cluster that it is for. Changing it replaces " +
				"the import.",
			DataDescription: "Name of the import, and of its managed cluster.",
			Valid:           attribute.ValidClusterName(),
		}},
		Table: table(),
		Timeouts: crud.Timeouts{
			Create: "creating, with `wait`,", Update: "changing, with `wait`,", Delete: "deleting",
		},
		Places: map[string]string{
			"cannot use the Secret":      "kubeconfig_secret",
			cluster.RefusedSetMembership: "cluster_set",
			cluster.RefusedAcceptance:    "accept",
		},
		Hooks: crud.Hooks[clusterImport]{
			Validate: validate, Plan: plan, Follow: follow, AfterRead: observe, AfterDelete: forget,
		},
		List: &crud.List[clusterImport]{
			Plural: "cluster imports", Objects: &v1alpha1.ClusterImportList{}, Needs: hub.ImportNeeds,
			Cluster: func(object clusterImport) string { return object.Name },
			Describe: func(object clusterImport) string {
				if current(object, muster.ConditionJoined, metav1.ConditionTrue) {
					return "joined"
				}
				return "not joined"
			},
		},
		Data: &crud.Data[clusterImport]{
			Description: "A cluster in which the hub installs the agent: how far it is, and what it waits for. The " +
				"kubeconfig can't be read.",
			Table: attribute.Table[clusterImport]{attribute.ReportedConditions(
				"Conditions of the import: `KubeconfigUsable`, `AgentInstalled`, `Joined` and `Drifted`.",
				func(i clusterImport) []metav1.Condition { return i.Status.Conditions })},
			Others: "kubectl get clusterimports",
		},
	}
}

// observe brings what the table knows nothing of up to date.
func observe(_ context.Context, values attribute.Values, live clusterImport, _ *diag.Diagnostics) {
	if !values.IsSet("publish_server") { // a state from before
		values["publish_server"] = types.BoolValue(live.Spec.PublishServer)
	}
	crud.StayReady(values, func() bool { return len(lacks(live, "")) == 0 && !awaitsAvailable(values) })
}

// forget deletes the kubeconfig that was handed in. An import that is still there is
// another resource's by now, and needs it.
func forget(ctx context.Context, c *change) {
	name := c.Keys[0]
	if c.Prior.IsSet("kubeconfig_wo_version") &&
		kube.IsNotFound(c.Client.Get(ctx, &v1alpha1.ClusterImport{}, "", name), name) {
		withdraw(ctx, c)
	}
}
