package action

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-validators/actionvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/action"
	"github.com/hashicorp/terraform-plugin-framework/action/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/operation"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

var (
	_ action.ActionWithConfigure        = (*waitJoined)(nil)
	_ action.ActionWithConfigValidators = (*waitJoined)(nil)
)

type waitJoined struct{ onHub }

type waitJoinedModel struct {
	ManagedClusters types.Set    `tfsdk:"managed_clusters"`
	ClusterSet      types.String `tfsdk:"cluster_set"`
	Selector        types.String `tfsdk:"label_selector"`
	Minimum         types.Int64  `tfsdk:"minimum"`
	Until           types.String `tfsdk:"until"`
	Timeout         types.String `tfsdk:"timeout"`
}

// NewWaitJoined is muster_wait_joined.
func NewWaitJoined() action.Action { return &waitJoined{onHub{name: "wait_joined"}} }

func (a *waitJoined) Schema(_ context.Context, _ action.SchemaRequest, resp *action.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Waits until clusters have joined the hub and are available, and tells meanwhile how far each of them is: whether it is accepted, which certificate request waits for approval, and what the hub says about it. " +
			"It changes nothing. It ends early when a cluster is denied or deleted.\n\n" +
			"What needs running clusters in the same configuration is better served by the resource `muster_cluster_registration`, on which other resources can depend.",
		Attributes: map[string]schema.Attribute{
			"managed_clusters": schema.SetAttribute{
				MarkdownDescription: "Names of the clusters. They need not exist yet. Give either these, or `cluster_set`, `label_selector` or both.",
				Optional:            true,
				ElementType:         types.StringType,
				Validators:          []validator.Set{setvalidator.SizeAtLeast(1), setvalidator.ValueStringsAre(attribute.ValidClusterName())},
			},
			"cluster_set": schema.StringAttribute{
				MarkdownDescription: "Name of a cluster set: its clusters are waited for, also those that enter it meanwhile.",
				Optional:            true,
				Validators:          []validator.String{attribute.ValidName("cluster set name")},
			},
			"label_selector": schema.StringAttribute{
				MarkdownDescription: "Selects clusters by their labels, as kubectl does: `env=prod,region in (eu,us)`.",
				Optional:            true,
				Validators:          []validator.String{attribute.ValidSelector()},
			},
			"minimum": schema.Int64Attribute{
				MarkdownDescription: "How many of the clusters suffice. If omitted, all of them have to be there, and one at least.",
				Optional:            true,
				Validators:          []validator.Int64{int64validator.AtLeast(1)},
			},
			"until": schema.StringAttribute{
				MarkdownDescription: "`available` waits until the hub hears from the agents and the clusters' API servers are well (`" + cluster.ConditionAvailable + "`), " +
					"`joined` only until the agents have their certificates (`" + cluster.ConditionJoined + "`). Defaults to `available`.",
				Optional:   true,
				Validators: []validator.String{stringvalidator.OneOf("available", "joined")},
			},
			"timeout": timeoutAttribute("the wait", attribute.DefaultWait),
		},
	}
}

// ConfigValidators implements action.ActionWithConfigValidators.
func (a *waitJoined) ConfigValidators(context.Context) []action.ConfigValidator {
	names, set, selector := path.MatchRoot("managed_clusters"), path.MatchRoot("cluster_set"), path.MatchRoot("label_selector")
	return []action.ConfigValidator{
		actionvalidator.AtLeastOneOf(names, set, selector),
		actionvalidator.Conflicting(names, set),
		actionvalidator.Conflicting(names, selector),
	}
}

func (a *waitJoined) Invoke(ctx context.Context, req action.InvokeRequest, resp *action.InvokeResponse) {
	var config waitJoinedModel
	a.invoke(ctx, req, resp, &config, func(client *kube.Client, listener operation.Listener) (string, error) {
		o := operation.WaitOptions{
			Clusters: attribute.StringList(config.ManagedClusters), Set: config.ClusterSet.ValueString(),
			Minimum: int(config.Minimum.ValueInt64()), JoinedOnly: config.Until.ValueString() == "joined",
			Timeout: durationOf(config.Timeout, attribute.DefaultWait),
		}
		const doing = "wait for managed clusters"
		if text := config.Selector.ValueString(); text != "" {
			selector, err := labels.Parse(text)
			if err != nil {
				return doing, err
			}
			o.Selector = selector
		}
		return doing, operation.WaitJoined(ctx, client, o, listener)
	})
}
