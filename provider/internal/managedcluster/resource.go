package managedcluster

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

type (
	managedCluster = *clusterv1.ManagedCluster
	change         = crud.Change[managedCluster]
)

// Cluster is muster_managed_cluster.
func Cluster() crud.Declared {
	return &crud.Kind[managedCluster]{
		Type: "managed_cluster", Noun: "managed cluster", Empty: &clusterv1.ManagedCluster{},
		Description: "The hub's record of one cluster of the fleet. Creating it gives no access yet: " +
			"`muster_cluster_acceptance` accepts the cluster, `muster_klusterlet` (or any OCM agent) registers it, " +
			"and `muster_cluster_registration` waits until it has joined.\n\n" +
			"A record that an agent has created by registering is taken over: the values of the configuration are " +
			"added, and replace the set `default` and the heartbeat interval that the hub filled in. If one of " +
			"these values was set differently, or another Terraform resource manages the record, that is an error " +
			"unless `adopt` is set. Only what the configuration sets is compared and repaired; other values, " +
			"written by agents and the hub, are left alone.\n\n" +
			"Destroying it detaches the cluster: the hub deletes its works and add-ons, withdraws the agent's " +
			"rights, and keeps the cluster's namespace.",
		Keys: []crud.Key{{
			Name: "name",
			Description: "The cluster's name everywhere: in certificates, in labels, and as its namespace on the " +
				"hub. A DNS label of at most 63 characters. Changing it replaces the cluster.",
			DataDescription: "Name of the cluster.",
			Valid:           attribute.ValidClusterName(),
		}},
		Table: clusterTable(),
		Places: map[string]string{
			cluster.ClusterSetLabel: "cluster_set", cluster.RefusedSetMembership: "cluster_set",
			"managedClusterClientConfigs": "client_configs", "client configs": "client_configs",
		},
		Foreign:  foreignField,
		Timeouts: crud.Timeouts{Delete: "detaching the cluster, its works included,"},
		Hooks: crud.Hooks[managedCluster]{
			Own: own,
			BeforeWrite: func(_ context.Context, c *change) bool {
				c.Object.Spec.Taints = nil // applyTaints writes them.
				return true
			},
			AfterWrite: writeTaints,
			Warn:       checkSet,
			Going: func(c *change) *crud.Going {
				going := crud.EverythingIn(c.Keys[0])
				return &going
			},
			Late: func(ctx context.Context, c *change) (summary, detail string) {
				return fmt.Sprintf("Managed cluster %q is not detached yet", c.Keys[0]),
					fmt.Sprintf("It was still on the hub %s after its deletion was asked for. %s",
						c.Timeout, describeDetaching(ctx, c.Client, c.Object, c.Keys[0]))
			},
		},
		List: &crud.List[managedCluster]{
			Plural: "managed clusters", Objects: &clusterv1.ManagedClusterList{},
			About: "A cluster's agent is listed nowhere: the hub does not know how to reach it. " +
				"Import it as `muster_klusterlet` with a connection to the cluster.",
			Sets:     crud.SetsOfCluster,
			Describe: crud.DescribeCluster,
		},
		Data: &crud.Data[managedCluster]{
			Description: "The present state of one managed cluster: whether it is accepted, joined and available, " +
				"its version, claims and resources.",
			Without: clusterTable().Names(),
			Table:   observedTable(),
			Others:  "kubectl get managedclusters",
		},
	}
}

// checkSet warns of a cluster set that does not exist. Only a refresh knows: while the
// cluster is planned or created, the same apply may make the set, before or after.
func checkSet(
	ctx context.Context, r *crud.Resource, values attribute.Values, live managedCluster, diags *diag.Diagnostics,
) {
	set := live.Labels[cluster.ClusterSetLabel]
	if values.IsSet("cluster_set") && set != "" && r.Hub.LacksSet(ctx, set) {
		diags.AddAttributeWarning(path.Root("cluster_set"), "There is no such cluster set",
			fmt.Sprintf("Managed cluster %q is in the cluster set %q, which the hub does not have, so no namespace "+
				"can be bound to it and no placement selects the cluster by it. Correct cluster_set, or create the "+
				"set. With a reference to the name of its muster_managed_cluster_set, Terraform creates the set "+
				"first.", live.Name, set))
	}
}

// own says how the record is written. Of one that an agent has made, nobody loses what is
// added, nor what the hub has filled in.
func own(values attribute.Values, o *crud.Owned) {
	o.Write.Harmless = func(d crud.Difference) bool {
		switch d.Path {
		case "metadata.labels[" + cluster.ClusterSetLabel + "]":
			return d.Added() || (d.There == cluster.DefaultSet && d.Here != nil)
		case "spec.leaseDurationSeconds":
			return d.Added() || (d.There == float64(cluster.DefaultLeaseDurationSeconds) && d.Here != nil)
		}
		return d.Added()
	}
	if record, ok := o.Write.Object.(managedCluster); ok {
		record.Spec.Taints = nil // applyTaints writes them.
	}
	wanted := taintsIn(values)
	o.Write.Further = func(live kube.Object) []crud.Difference {
		record, ok := live.(managedCluster)
		if !ok || wanted == nil {
			return nil
		}
		return lostTaints(record.Spec.Taints, wanted)
	}
}

// foreignField tells which fields of a ManagedCluster are no attributes of the
// resource: its acceptance is a resource of its own, taints are merged with those of
// the hub, an import leaves addresses to those who set them, and the hub and the
// agent have labels and annotations of their own.
func foreignField(path string) bool {
	switch path {
	case "spec.hubAcceptsClient", "spec.taints", "spec.managedClusterClientConfigs":
		return true
	}
	if key, ok := strings.CutPrefix(path, "metadata.labels."); ok {
		return key != cluster.ClusterSetLabel && reservedClusterLabel(key) != ""
	}
	key, ok := strings.CutPrefix(path, "metadata.annotations.")
	return ok && strings.Contains(key, "open-cluster-management.io")
}

func reservedClusterLabel(key string) string {
	switch {
	case key == cluster.ClusterSetLabel:
		return "use the attribute cluster_set"
	case strings.HasPrefix(key, cluster.AddOnFeatureLabelPrefix):
		return "the hub sets it from the state of the cluster's add-ons"
	default:
		return ""
	}
}

// describeDetaching tells what a cluster's deletion waits for. It asks the hub
// within a few seconds, and does without an answer.
func describeDetaching(ctx context.Context, client *kube.Client, object *clusterv1.ManagedCluster, name string) string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	text := "What it waits for:\n" + hub.DescribeDeletion(object, time.Now()) + "\n" +
		hub.DescribeConditions(object.Status.Conditions, time.Now())
	works := &workv1.ManifestWorkList{}
	if err := client.List(ctx, works, kube.ListOptions{Namespace: name}); err == nil && len(works.Items) > 0 {
		var names []string
		for _, w := range works.Items {
			names = append(names, w.Name)
		}
		text += fmt.Sprintf("\n\nManifest works that are left: %s.", strings.Join(names, ", "))
	}
	return text + fmt.Sprintf("\n\nThe agent has to run in the cluster to remove the works' objects there. Look at "+
		"it with\n"+
		"  kubectl get manifestworks -n %s\nand apply again when it does. "+
		"%s", name, crud.LostAdvice(name))
}
