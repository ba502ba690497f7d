package placement

import (
	"context"
	"regexp"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/crud"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

var (
	_ resource.ResourceWithConfigure      = (*placementResource)(nil)
	_ resource.ResourceWithImportState    = (*placementResource)(nil)
	_ resource.ResourceWithIdentity       = (*placementResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*placementResource)(nil)
	_ resource.ResourceWithValidateConfig = (*placementResource)(nil)
)

type placementResource struct{ crud.Resource }

// New is muster_placement.
func New() resource.Resource { return &placementResource{} }

func (r *placementResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_placement"
}

func (r *placementResource) IdentitySchema(_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse) {
	resp.IdentitySchema = attribute.IdentitySchema("namespace", "name")
}

func (r *placementResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	attributes := placementSpecAttributes()
	for name, attribute := range placementChoiceAttributes() {
		attributes[name] = attribute
	}
	for name, attribute := range map[string]schema.Attribute{
		"namespace": attribute.Identifying("Namespace on the hub. It has to exist, for example as a `muster_namespace`, and a cluster set has to be bound to it. Changing it replaces the placement.",
			attribute.ValidName("namespace")),
		"name": attribute.Identifying("Name of the placement. It becomes a label on its decisions, so it has at most 63 characters. Changing it replaces the placement.",
			attribute.ValidName("placement name")),
		"labels":      attribute.Labels("Labels of the placement itself.", nil),
		"annotations": attribute.Annotations("Annotations of the placement. `" + cluster.SchedulingDisabledAnnotation + "` with the value `true` disables scheduling: its decisions then stay as they are."),
		"score_rate_limit": schema.StringAttribute{
			MarkdownDescription: "The shortest time between two changes of the decisions because of scores: a number with the unit `h`, `m` or `s`, such as `5m`. It is part of the API; neither upstream's scheduler (as of 2025) nor muster's acts on it. If omitted, the hub sets `" + defaultScoreRateLimit + "`.",
			Optional:            true,
			Validators: []validator.String{stringvalidator.RegexMatches(regexp.MustCompile(`^[0-9]+[hms]$`),
				"a rate limit is a whole number with the unit h, m or s, such as 5m")},
		},
		"preview": schema.BoolAttribute{
			MarkdownDescription: "Whether a plan that changes the selection of an existing placement asks the hub for the fleet and warns of the clusters that it would add and drop. A hub that does not answer at once is no error. Defaults to `true`.",
			Optional:            true,
		},
		"wait":            placementWaitAttribute(),
		"ready":           attribute.Ready("Whether what `wait` asks for was met; null without `wait`."),
		"adopt":           attribute.AdoptAttribute(),
		"force_conflicts": attribute.ForceAttribute(),
	} {
		attributes[name] = attribute
	}
	resp.Schema = schema.Schema{
		MarkdownDescription: "Selects managed clusters out of the cluster sets that are bound to its namespace, and keeps the selection current. " +
			"The data source `muster_placement_decisions` reads it by groups.\n\n" +
			"A cluster that is not accepted, or whose agent is silent, carries the taint `cluster.open-cluster-management.io/unreachable` and is not selected unless a toleration excuses it.\n\n" +
			"What is left out means something, such as all clusters for `number_of_clusters`: where somebody else sets such a field on the hub, a plan shows it, and an apply removes it.\n\n" +
			"A plan that changes the selection of an existing placement warns of the clusters that it would add and drop, computed by the hub's scheduling library from the fleet at that moment (with `-refresh=false` it says nothing). " +
			"They are not planned values, because the fleet may change before the apply, and Terraform would report that as an error. " +
			"To have them in the plan, for example for a `precondition`, set `planned_clusters` to what the data source `muster_placement_preview` predicts: Terraform reads it once and keeps the result.",
		Attributes: attributes,
		Blocks: map[string]schema.Block{
			"timeouts": timeouts.Block(ctx, timeouts.Opts{
				Create: true, CreateDescription: attribute.TimeoutText("creating, with `wait`,", attribute.DefaultWait),
				Update: true, UpdateDescription: attribute.TimeoutText("changing, with `wait`,", attribute.DefaultWait),
				Delete: true, DeleteDescription: attribute.TimeoutText("deleting", attribute.DefaultDelete),
			}),
		},
	}
}

// placementSpecAttributes are those by which clusters are selected.
func placementSpecAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"cluster_sets": schema.ListAttribute{
			MarkdownDescription: "Cluster sets to select from. Those that are not bound to the namespace are ignored. If omitted, all that are bound.",
			Optional:            true,
			ElementType:         types.StringType,
			Validators:          []validator.List{listvalidator.UniqueValues(), listvalidator.ValueStringsAre(attribute.ValidName("cluster set name"))},
		},
		"number_of_clusters": schema.Int64Attribute{
			MarkdownDescription: "The greatest number of clusters to select. If omitted, all that qualify; `0` selects none.",
			Optional:            true,
			Validators:          []validator.Int64{int64validator.Between(0, 1<<31-1)},
		},
		"predicates":         predicatesAttribute(),
		"prioritizer_policy": prioritizerPolicyAttribute(),
		"spread_policy":      spreadPolicyAttribute(),
		"tolerations":        tolerationsAttribute(),
		"decision_strategy":  decisionStrategyAttribute(),
		"sort_by": schema.StringAttribute{
			MarkdownDescription: "Order of the clusters in the decisions: `ClusterName`, or `Score` for the best first. It does not change which are selected. " +
				"muster's hub does so; upstream's scheduler (as of 2025) always orders by name. If omitted, the hub sets `" + string(defaultSortBy) + "`.",
			Optional:   true,
			Validators: []validator.String{stringvalidator.OneOf(string(clusterv1beta1.PlacementSortByClusterName), string(clusterv1beta1.PlacementSortByScore))},
		},
	}
}

// placementChoiceAttributes are those that tell which clusters are selected.
func placementChoiceAttributes() map[string]schema.Attribute {
	list := func(description string) schema.ListAttribute {
		return schema.ListAttribute{MarkdownDescription: description, Computed: true, ElementType: types.StringType}
	}
	planned := list("Clusters that the last change of the placement was expected to select. " +
		"Set from the data source `muster_placement_preview`, it is shown in plans. While nothing else changes in the selection, the previous value stays, so a change in the fleet causes no plan. " +
		"If omitted, it is what the scheduling library predicted right before the change was written, known only after the apply, and null if the hub could not be asked or `preview` is `false`. It does not affect the selection.")
	planned.Optional = true
	return map[string]schema.Attribute{
		"selected_clusters": list("Clusters that are selected, as last read, in alphabetical order. Null while the scheduler has not decided, and where the decisions may not be read."),
		"planned_clusters":  planned,
		"planned_added":     list("Those of `planned_clusters` that were not selected before the change."),
		"planned_dropped":   list("Those that were selected before the change and are not in `planned_clusters`."),
	}
}

func (r *placementResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan placementModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	timeout, diags := plan.Timeouts.Create(ctx, attribute.DefaultWait)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r.expect(waiting, &plan)
	object := plan.object()
	if !r.CreateObject(waiting, plan.owned(object), resp.Private, &resp.Diagnostics) {
		return
	}
	plan.SelectedClusters = types.ListNull(types.StringType)
	r.follow(ctx, waiting, &plan, object, timeout, &resp.Diagnostics).Created(ctx, &plan, resp)
}

func (r *placementResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state placementModel
	object := &clusterv1beta1.Placement{}
	r.ReadObject(ctx, req, resp, &state, object, func() error {
		state.observe(object)
		state.SelectedClusters = r.selected(ctx, object, &resp.Diagnostics)
		return nil
	})
}

func (r *placementResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan placementModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	timeout, diags := plan.Timeouts.Update(ctx, attribute.DefaultWait)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r.expect(waiting, &plan)
	object := plan.object()
	if !r.UpdateObject(waiting, plan.owned(object), req.Private, resp.Private, &resp.Diagnostics) {
		return
	}
	follow := r.follow(ctx, waiting, &plan, object, timeout, &resp.Diagnostics)
	if !plan.SelectedClusters.IsUnknown() {
		follow.Wait = nil
	}
	follow.Updated(ctx, &plan, resp)
}

func (r *placementResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state placementModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	timeout, diags := state.Timeouts.Delete(ctx, attribute.DefaultDelete)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	r.Destroy(ctx, &clusterv1beta1.Placement{}, &state, timeout, req.Private, &resp.Diagnostics, nil)
}

func (r *placementResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	object := &clusterv1beta1.Placement{}
	named := func(names []string) crud.Model {
		return &placementModel{Namespace: types.StringValue(names[0]), Name: types.StringValue(names[1])}
	}
	r.ImportObject(ctx, req, resp, []string{"namespace", "name"}, object, named, func() (crud.Model, error) {
		state := importPlacement(object)
		return &state, nil
	})
}
