package registration

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

type (
	managedCluster = *clusterv1.ManagedCluster
	// acceptance carries one acceptance or denial out.
	acceptance = crud.Change[managedCluster]
)

// Acceptance is muster_cluster_acceptance.
func Acceptance() crud.Declared {
	return &crud.Kind[managedCluster]{
		Type: "cluster_acceptance", Empty: &clusterv1.ManagedCluster{},
		Description: "Accepts a cluster into the fleet: sets `hubAcceptsClient` on its ManagedCluster, waits until " +
			"the hub has given the agent its namespace and rights, and, where the hub does not do that by itself, " +
			"approves the agent's first certificate request.\n\n" +
			"A muster hub approves by itself what comes with a bootstrap token bound to the cluster (see the " +
			"ephemeral resource `muster_bootstrap_kubeconfig`), so there a cluster is best accepted before its agent " +
			"is installed. On an upstream hub, creating this resource waits until the agent's request arrives; " +
			"install the agent in the meantime, and do not make the installation depend on the acceptance.\n\n" +
			"Destroying it denies the cluster: the agent loses its rights, and what runs in the cluster keeps " +
			"running. An acceptance that another Terraform resource has taken over is left alone.",
		Keys: []crud.Key{{
			Name: "managed_cluster",
			Description: "Name of the managed cluster. It has to exist, or to be registered by its agent before the " +
				"timeout.",
			Valid: attribute.ValidClusterName(),
		}},
		Table: acceptanceTable(),
		Timeouts: crud.Timeouts{
			Create: "accepting, with the wait for cluster and certificate request,", Update: "accepting again",
			Delete: "denying",
		},
		Part: &crud.Part[managedCluster]{Write: decide, Claim: importedAcceptance},
		Hooks: crud.Hooks[managedCluster]{
			What: func(keys []string) string {
				return fmt.Sprintf("the acceptance of managed cluster %q", keys[0])
			},
			Plan: planAcceptance,
			AfterWrite: func(ctx context.Context, c *acceptance) bool {
				follow(ctx, c)
				return true // An error must not lose the acceptance.
			},
			Reading: warnOfOwner,
			BeforeDelete: func(ctx context.Context, c *acceptance) bool {
				deny(ctx, c)
				return false
			},
		},
		List: &crud.List[managedCluster]{
			Plural: "acceptances of managed clusters", Objects: &clusterv1.ManagedClusterList{},
			About: "Clusters that are not accepted are not listed: whether to accept them is still to be decided.",
			Is:    func(object managedCluster) bool { return object.Spec.AcceptsClient() },
			Managed: func(object managedCluster) bool {
				return !crud.FieldsOf(object, hub.AcceptanceManager).None()
			},
			Sets:     crud.SetsOfCluster,
			Describe: crud.DescribeCluster,
		},
	}
}

func acceptanceTable() attribute.Table[managedCluster] {
	adopt := attribute.AdoptAttribute()
	adopt.MarkdownDescription = "Whether to take the decision over from another Terraform resource that has made " +
		"another one, or that has taken this one over in the meantime. If omitted or `false`, that is an error. A " +
		"decision of another resource that says the same is taken over with a warning, and one of a person or an " +
		"agent without."
	return attribute.Table[managedCluster]{
		attribute.FlagPointer("accepted",
			schema.BoolAttribute{
				MarkdownDescription: "Whether the hub accepts the cluster. `false` denies it and keeps it denied. " +
					"Defaults to `true`.",
				Optional: true, Computed: true, Default: booldefault.StaticBool(true),
			},
			func(object managedCluster) **bool { return &object.Spec.HubAcceptsClient }).
			At("spec.hubAcceptsClient").Standard(types.BoolValue(false)),
		attribute.Local[managedCluster]("approve_csr", schema.BoolAttribute{
			MarkdownDescription: "Whether to wait for the agent's first certificate request and approve it. If " +
				"omitted, this is done on hubs that do not approve requests of bound bootstrap tokens themselves, " +
				"that is on upstream hubs. A cluster that has joined needs no approval. Exactly one request is " +
				"approved: several pending requests with different keys or requesters are an error.",
			Optional: true,
		}),
		attribute.Local[managedCluster]("approve_csr_name", attribute.Optional("Name of the one certificate request "+
			"to approve, for when several wait. It has to be one of this cluster, from an allowed requester.",
			stringvalidator.LengthAtLeast(1))),
		attribute.Local[managedCluster]("requesters", schema.ListAttribute{
			MarkdownDescription: "Further user names whose certificate requests may be approved, beside bootstrap " +
				"tokens and the bootstrap service account.",
			Optional: true, ElementType: types.StringType,
		}),
		attribute.Local[managedCluster]("adopt", adopt),
	}
}
