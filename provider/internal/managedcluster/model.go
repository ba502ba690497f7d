package managedcluster

import (
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
)

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
