package action

import (
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/action"
	"github.com/hashicorp/terraform-plugin-framework/action/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/operation"
)

var _ action.ActionWithConfigure = (*denyCluster)(nil)

type denyCluster struct{ onHub }

type denyClusterModel struct {
	ManagedCluster types.String `tfsdk:"managed_cluster"`
	Force          types.Bool   `tfsdk:"force_conflicts"`
	Timeout        types.String `tfsdk:"timeout"`
}

// defaultDenial is how long a hub may take to withdraw rights.
const defaultDenial = 2 * time.Minute

// NewDenyCluster is muster_deny_cluster.
func NewDenyCluster() action.Action { return &denyCluster{onHub{name: "deny_cluster"}} }

func (a *denyCluster) Schema(_ context.Context, _ action.SchemaRequest, resp *action.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Denies a cluster: sets `hubAcceptsClient` to false and waits until the hub has withdrawn the rights of its agent. What runs in the cluster keeps running, and its works stay on the hub. " +
			"A denied cluster stays denied until it is accepted again; its agent then goes on with the certificate that it has.\n\n" +
			"A cluster that a `muster_cluster_acceptance` accepts is better denied there, with `accepted = false`: its next apply would accept the cluster again, so the action refuses.",
		Attributes: map[string]schema.Attribute{
			"managed_cluster": clusterAttribute("Name of the managed cluster."),
			"force_conflicts": schema.BoolAttribute{
				MarkdownDescription: "Whether to deny the cluster also when a `muster_cluster_acceptance` accepts it, for emergencies. Change that resource before its next apply.",
				Optional:            true,
			},
			"timeout": timeoutAttribute("the hub", defaultDenial),
		},
	}
}

func (a *denyCluster) Invoke(ctx context.Context, req action.InvokeRequest, resp *action.InvokeResponse) {
	var config denyClusterModel
	a.invoke(ctx, req, resp, &config, func(client *kube.Client, listener operation.Listener) (string, error) {
		name := config.ManagedCluster.ValueString()
		return quoted("deny managed cluster", name), operation.Deny(ctx, client, operation.DenyOptions{
			Cluster: name, Force: config.Force.ValueBool(), Timeout: durationOf(config.Timeout, defaultDenial),
		}, listener)
	})
}
