package action

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework/action"
	"github.com/hashicorp/terraform-plugin-framework/action/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/operation"
)

var _ action.ActionWithConfigure = (*resumeRollout)(nil)

type resumeRollout struct{ onHub }

type resumeRolloutModel struct {
	Namespace       types.String `tfsdk:"namespace"`
	Name            types.String `tfsdk:"name"`
	ManagedClusters types.Set    `tfsdk:"managed_clusters"`
	Recreate        types.Bool   `tfsdk:"recreate"`
	RolledOut       types.Bool   `tfsdk:"rolled_out"`
	Timeout         types.String `tfsdk:"timeout"`
}

// NewResumeRollout is muster_resume_rollout.
func NewResumeRollout() action.Action { return &resumeRollout{onHub{name: "resume_rollout"}} }

func (a *resumeRollout) Schema(_ context.Context, _ action.SchemaRequest, resp *action.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Resumes the rollout of a manifest work replica set that has stopped because clusters failed. The hub goes on when the works that have failed recover, so the action has their agents apply them once more, or the hub make them again (`recreate`), " +
			"and waits until none of them fails any more. It tells the state of each, and how far the rollout is.\n\n" +
			"It does not change how many failures are tolerated: that is `max_failures` of the rollout strategy. Other manifests begin a rollout of their own.",
		Attributes: map[string]schema.Attribute{
			"namespace": schema.StringAttribute{
				MarkdownDescription: "Namespace of the replica set.",
				Required:            true,
				Validators:          []validator.String{attribute.ValidName("namespace")},
			},
			"name": schema.StringAttribute{
				MarkdownDescription: "Name of the replica set.",
				Required:            true,
				Validators:          []validator.String{attribute.ValidObjectName("replica set name")},
			},
			"managed_clusters": schema.SetAttribute{
				MarkdownDescription: "Names of the clusters whose works are tried again. If omitted, all that have failed: the work could not be applied, is `Degraded`, or has been `Progressing` for longer than the strategy's `progress_deadline`.",
				Optional:            true,
				ElementType:         types.StringType,
				Validators:          []validator.Set{setvalidator.SizeAtLeast(1), setvalidator.ValueStringsAre(attribute.ValidClusterName())},
			},
			"recreate": schema.BoolAttribute{
				MarkdownDescription: "Whether to delete the works that have failed, so that the hub makes them again. **Their objects are removed from the clusters and created again.** This is for objects that can't recover, such as a Job that has used up its attempts.",
				Optional:            true,
			},
			"rolled_out": schema.BoolAttribute{
				MarkdownDescription: "Whether to wait until the rollout has reached all clusters, beyond the recovery of those that have failed.",
				Optional:            true,
			},
			"timeout": timeoutAttribute("the wait", attribute.DefaultWait),
		},
	}
}

func (a *resumeRollout) Invoke(ctx context.Context, req action.InvokeRequest, resp *action.InvokeResponse) {
	var config resumeRolloutModel
	a.invoke(ctx, req, resp, &config, func(client *kube.Client, listener operation.Listener) (string, error) {
		namespace, name := config.Namespace.ValueString(), config.Name.ValueString()
		return quoted("resume the rollout of replica set", namespace+"/"+name), operation.Resume(ctx, client, operation.ResumeOptions{
			Namespace: namespace, Name: name, Clusters: attribute.StringList(config.ManagedClusters),
			Recreate: config.Recreate.ValueBool(), RolledOut: config.RolledOut.ValueBool(), Timeout: durationOf(config.Timeout, attribute.DefaultWait),
		}, listener)
	})
}
