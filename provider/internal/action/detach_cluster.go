package action

import (
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/action"
	"github.com/hashicorp/terraform-plugin-framework/action/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/operation"
)

var _ action.ActionWithConfigure = (*detachCluster)(nil)

type detachCluster struct{ onHub }

type detachClusterModel struct {
	ManagedCluster  types.String `tfsdk:"managed_cluster"`
	Force           types.Bool   `tfsdk:"force"`
	ForceAfter      types.String `tfsdk:"force_after"`
	DeleteNamespace types.Bool   `tfsdk:"delete_namespace"`
	Timeout         types.String `tfsdk:"timeout"`
}

// defaultGrace is how long a cluster may clean up by itself before force does.
const defaultGrace = time.Minute

// NewDetachCluster is muster_detach_cluster.
func NewDetachCluster() action.Action { return &detachCluster{onHub{name: "detach_cluster"}} }

func (a *detachCluster) Schema(_ context.Context, _ action.SchemaRequest, resp *action.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Takes a cluster out of the fleet: deletes its ManagedCluster, and waits until its agent has removed what its works have made, and the hub its add-ons, works and rights. " +
			"Meanwhile it names the works and add-ons that are left, and the finalizers that hold them. The agent itself stays in the cluster; destroy its `muster_klusterlet`, or delete the agent's namespace.\n\n" +
			"A cluster that a `muster_managed_cluster` manages leaves with that resource: `terraform destroy`, or removing it from the configuration. The action warns of one.",
		Attributes: map[string]schema.Attribute{
			"managed_cluster": clusterAttribute("Name of the managed cluster. One that the hub does not have is detached already."),
			"force": schema.BoolAttribute{
				MarkdownDescription: "Whether to take away what only the cluster's agent can take away by itself: the finalizers of the cluster's works and add-ons. This is for lost clusters. " +
					"It begins at once when the hub no longer hears from the agent, and else after `force_after`. " +
					"**What the works have made stays in the cluster**, and nothing will remove it; the action lists it.",
				Optional: true,
			},
			"force_after": schema.StringAttribute{
				MarkdownDescription: "How long, with `force`, a cluster whose agent still reports may clean up by itself. Defaults to `1m`.",
				Optional:            true,
				Validators:          []validator.String{attribute.ValidDuration(0)},
			},
			"delete_namespace": schema.BoolAttribute{
				MarkdownDescription: "Whether to delete the cluster's namespace on the hub as well, with all that others have put there. Hubs keep it by default, for a cluster that comes back.",
				Optional:            true,
			},
			"timeout": timeoutAttribute("all of it", attribute.DefaultDelete),
		},
	}
}

func (a *detachCluster) Invoke(ctx context.Context, req action.InvokeRequest, resp *action.InvokeResponse) {
	var config detachClusterModel
	a.invoke(ctx, req, resp, &config, func(client *kube.Client, listener operation.Listener) (string, error) {
		name := config.ManagedCluster.ValueString()
		return quoted("detach managed cluster", name), operation.Detach(ctx, client, operation.DetachOptions{
			Cluster: name, Force: config.Force.ValueBool(), Grace: durationOf(config.ForceAfter, defaultGrace),
			DeleteNamespace: config.DeleteNamespace.ValueBool(), Timeout: durationOf(config.Timeout, attribute.DefaultDelete),
		}, listener)
	})
}
