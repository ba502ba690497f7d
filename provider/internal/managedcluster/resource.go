// Package managedcluster has the resource muster_managed_cluster and the data
// sources of managed clusters and cluster profiles.
package managedcluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
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
			Reading:    checkSet,
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
func checkSet(ctx context.Context, c *change) {
	live := c.Object
	set := live.Labels[cluster.ClusterSetLabel]
	if c.Prior.IsSet("cluster_set") && set != "" && c.Hub.LacksSet(ctx, set) {
		c.Diagnostics.AddAttributeWarning(path.Root("cluster_set"), "There is no such cluster set",
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
		"  kubectl get manifestworks -n %s\nand apply again when it does. %s", name, crud.LostAdvice(name))
}

// clusterTable are the attributes of a managed cluster. Those that are not set are left
// to the agent and the hub.
func clusterTable() attribute.Table[managedCluster] {
	return attribute.Table[managedCluster]{
		attribute.LabelsField[managedCluster]("Labels, for placements and cluster sets to select on. Labels that " +
			"others set are left alone.").
			Reserved(reservedClusterLabel),
		attribute.AnnotationsField[managedCluster]("Annotations. Those that others set are left alone.").
			Importing(func(key string) bool {
				return !strings.Contains(key, "open-cluster-management.io") && attribute.ImportableAnnotation(key)
			}),
		attribute.Code("cluster_set",
			attribute.Optional("Name of the cluster set that the cluster belongs to. "+
				"A plan warns of an existing cluster whose set does not exist. "+
				"If omitted, the hub puts the cluster into the set `default`, and a later move is not reverted.",
				attribute.ValidName("cluster set name")),
			func(set types.String, c managedCluster) {
				c.Labels = attribute.OrEmpty(c.Labels)
				c.Labels[cluster.ClusterSetLabel] = set.ValueString()
			},
			func(c managedCluster) types.String {
				return attribute.OptionalString(c.Labels[cluster.ClusterSetLabel])
			}).
			LeftToOthers(importsSet),
		attribute.Code("client_id",
			attribute.Optional("Client ID of the agent that is to join as this cluster: one that is started with "+
				"`--client-id` and without a cluster name. Its bootstrap token has to be bound to the cluster, or "+
				"to list the client ID in `client_ids`. No other cluster of the hub may have the same. Needs a "+
				"muster hub.",
				attribute.ValidClientID()),
			func(id types.String, c managedCluster) { annotate(c, muster.ClientIDAnnotation, id.ValueString()) },
			func(c managedCluster) types.String {
				return attribute.OptionalString(c.Annotations[muster.ClientIDAnnotation])
			}).
			LeftToOthers(annotated(muster.ClientIDAnnotation)),
		attribute.Number("lease_duration_seconds",
			schema.Int64Attribute{
				MarkdownDescription: "Interval of the agent's heartbeats in seconds. After five intervals without " +
					"one, the hub sets the cluster's availability to unknown. The hub's default is 60.",
				Optional:   true,
				Validators: []validator.Int64{int64validator.Between(1, 86400)},
			},
			func(c managedCluster) *int32 { return &c.Spec.LeaseDurationSeconds }).
			LeftToOthers(importsLease),
		taintsField(),
		attribute.Objects("client_configs",
			schema.ListNestedAttribute{
				MarkdownDescription: "Addresses of the cluster's own API server, for tools and people; the hub does " +
					"not connect to them. If omitted, those that the agent reports are left alone.",
				Optional: true,
			},
			func(c managedCluster) *[]clusterv1.ClientConfig { return &c.Spec.ManagedClusterClientConfigs },
			attribute.Text("url",
				attribute.Required("URL of the API server; only `https` is allowed.", attribute.ValidHTTPSURL()),
				func(c *clusterv1.ClientConfig) *string { return &c.URL }),
			attribute.Code("ca_bundle",
				attribute.Optional("PEM certificates of the authorities that vouch for that server.",
					attribute.ValidPEM(), stringvalidator.LengthAtLeast(1)),
				func(pem types.String, c *clusterv1.ClientConfig) { c.CABundle = []byte(pem.ValueString()) },
				func(c *clusterv1.ClientConfig) types.String { return attribute.OptionalString(string(c.CABundle)) }),
		).LeftToOthers(func(owned attribute.Owned, _ managedCluster) bool {
			return owned.Has("spec", "managedClusterClientConfigs")
		}),
		attribute.Code("gone",
			schema.BoolAttribute{
				MarkdownDescription: "Whether the cluster is gone for good, so that nothing waits for its agent any " +
					"more. Set it and apply; then remove what belongs to the cluster, or destroy it: " +
					"`muster_manifest_work`, `muster_manifest_work_replica_set`, `muster_addon`, " +
					"`muster_cluster_addon`, `muster_klusterlet` and this resource then go within seconds, without " +
					"the cluster. **What works have made stays in the cluster**, and nothing removes it. It has no " +
					"effect while the hub hears from the agent.",
				Optional: true,
			},
			func(gone types.Bool, c managedCluster) {
				if gone.ValueBool() {
					annotate(c, muster.GoneAnnotation, "true")
				}
			},
			func(c managedCluster) types.Bool {
				return types.BoolValue(c.Annotations[muster.GoneAnnotation] == "true")
			}).
			LeftToOthers(annotated(muster.GoneAnnotation)),
	}
}

func annotate(c managedCluster, key, value string) {
	c.Annotations = attribute.OrEmpty(c.Annotations)
	c.Annotations[key] = value
}

// annotated says that an import takes over what the provider has written into an
// annotation.
func annotated(key string) func(attribute.Owned, managedCluster) bool {
	return func(owned attribute.Owned, _ managedCluster) bool {
		return slices.Contains(owned.Keys("metadata", "annotations"), key)
	}
}

// authored reports whether an object is a manifest from another state: that has what its
// author wrote, and no defaults of the hub.
func authored(c managedCluster) bool { return len(c.ManagedFields) == 0 }

// importsSet reports whether an import takes the cluster set over: what the provider's
// field manager owns; of a cluster that the provider has not made, what people may have
// set.
func importsSet(owned attribute.Owned, c managedCluster) bool {
	set := c.Labels[cluster.ClusterSetLabel]
	return slices.Contains(owned.Keys("metadata", "labels"), cluster.ClusterSetLabel) ||
		(owned.None() && (set != cluster.DefaultSet || authored(c)))
}

// importsLease is importsSet for the interval of heartbeats.
func importsLease(owned attribute.Owned, c managedCluster) bool {
	seconds := c.Spec.LeaseDurationSeconds
	chosen := seconds != cluster.DefaultLeaseDurationSeconds || authored(c) ||
		crud.WrittenFields(c).Has("spec", "leaseDurationSeconds")
	return owned.Has("spec", "leaseDurationSeconds") || (owned.None() && seconds != 0 && chosen)
}
