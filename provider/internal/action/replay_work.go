package action

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/action"
	"github.com/hashicorp/terraform-plugin-framework/action/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/operation"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
)

var _ action.ActionWithConfigure = (*replayWork)(nil)

type replayWork struct{ onHub }

type replayWorkModel struct {
	ManagedCluster types.String `tfsdk:"managed_cluster"`
	Name           types.String `tfsdk:"name"`
	LiftComplete   types.Bool   `tfsdk:"lift_complete"`
	Timeout        types.String `tfsdk:"timeout"`
}

// NewReplayWork is muster_replay_work.
func NewReplayWork() action.Action { return &replayWork{onHub{name: "replay_work"}} }

func (a *replayWork) Schema(_ context.Context, _ action.SchemaRequest, resp *action.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Has the agent apply all manifests of a manifest work once more, now, and waits for its report. The agent forgets what it knows of the objects, and any pause after a quarrel with another controller or a lack of rights. " +
			"It fails when the manifests still can't be applied, with the reasons.\n\n" +
			"The action puts the annotation `" + work.ReplayAnnotation + "` on the ManifestWork, which the agent removes when it has reported. " +
			"Agents of Open Cluster Management apply the work then as well, and do not answer: the action says so after a while, takes the annotation back and fails.",
		Attributes: map[string]schema.Attribute{
			"managed_cluster": clusterAttribute("Name of the managed cluster."),
			"name": schema.StringAttribute{
				MarkdownDescription: "Name of the manifest work.",
				Required:            true,
				Validators:          []validator.String{attribute.ValidObjectName("work name")},
			},
			"lift_complete": schema.BoolAttribute{
				MarkdownDescription: "Whether to apply also a work that is `Complete`, whose objects the agent otherwise leaves alone. As long as its condition rules say so, it is complete again afterwards. " +
					"A finished Job that still exists stays finished; delete it in the cluster first.",
				Optional: true,
			},
			"timeout": timeoutAttribute("the agent", defaultAnswer),
		},
	}
}

func (a *replayWork) Invoke(ctx context.Context, req action.InvokeRequest, resp *action.InvokeResponse) {
	var config replayWorkModel
	a.invoke(ctx, req, resp, &config, func(client *kube.Client, listener operation.Listener) (string, error) {
		name, of := config.Name.ValueString(), config.ManagedCluster.ValueString()
		return quoted("replay the manifest work", of+"/"+name), operation.Replay(ctx, client, operation.ReplayOptions{
			Cluster: of, Name: name, LiftComplete: config.LiftComplete.ValueBool(), Timeout: durationOf(config.Timeout, defaultAnswer),
		}, listener)
	})
}
