package placement

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/datasource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

var _ datasource.DataSourceWithConfigure = (*placementDecisionsDataSource)(nil)

const defaultDecisionWait = 2 * time.Minute

type placementDecisionsDataSource struct{ crud.DataSource }

type placementDecisionsModel struct {
	Namespace   types.String               `tfsdk:"namespace"`
	Placement   types.String               `tfsdk:"placement"`
	Wait        types.Bool                 `tfsdk:"wait"`
	MinClusters types.Int64                `tfsdk:"min_clusters"`
	GroupName   types.String               `tfsdk:"group_name"`
	GroupIndex  types.Int64                `tfsdk:"group_index"`
	Clusters    []types.String             `tfsdk:"clusters"`
	Groups      []decidedGroupModel        `tfsdk:"groups"`
	Satisfied   types.Bool                 `tfsdk:"satisfied"`
	Conditions  []attribute.ConditionModel `tfsdk:"conditions"`
	Timeouts    timeouts.Value             `tfsdk:"timeouts"`
}

type decidedGroupModel struct {
	Index    types.Int64    `tfsdk:"index"`
	Name     types.String   `tfsdk:"name"`
	Clusters []types.String `tfsdk:"clusters"`
}

// NewDecisionsDataSource is the data source muster_placement_decisions.
func NewDecisionsDataSource() datasource.DataSource { return &placementDecisionsDataSource{} }

func (d *placementDecisionsDataSource) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_placement_decisions"
}

func (d *placementDecisionsDataSource) Schema(ctx context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "The clusters that a placement has selected. It waits until the scheduler has processed the placement's present content, so a placement that the same apply creates or changes gives its new result.",
		Attributes: map[string]schema.Attribute{
			"namespace": schema.StringAttribute{
				MarkdownDescription: "Namespace of the placement.",
				Required:            true,
				Validators:          []validator.String{attribute.ValidName("namespace")},
			},
			"placement": schema.StringAttribute{
				MarkdownDescription: "Name of the placement.",
				Required:            true,
				Validators:          []validator.String{attribute.ValidName("placement name")},
			},
			"wait": schema.BoolAttribute{
				MarkdownDescription: "Whether to wait until the placement is satisfied, that is until it has as many clusters as it asks for. Otherwise what is selected so far is returned. Defaults to `false`.",
				Optional:            true,
			},
			"min_clusters": schema.Int64Attribute{
				MarkdownDescription: "Waits until at least this many clusters are selected, in all groups together.",
				Optional:            true,
				Validators:          []validator.Int64{int64validator.AtLeast(0)},
			},
			"group_name": schema.StringAttribute{
				MarkdownDescription: "Narrows `clusters` and `groups` to the decision groups of this name; `\"\"` to the clusters of no named group. A name that no group has gives empty lists.",
				Optional:            true,
			},
			"group_index": schema.Int64Attribute{
				MarkdownDescription: "Narrows `clusters` and `groups` to the decision group of this number, from 0.",
				Optional:            true,
				Validators:          []validator.Int64{int64validator.AtLeast(0)},
			},
			"clusters": schema.ListAttribute{
				MarkdownDescription: "Names of the selected clusters, in alphabetical order.",
				Computed:            true,
				ElementType:         types.StringType,
			},
			"groups": schema.ListNestedAttribute{
				MarkdownDescription: "The same by decision groups, in the order in which a rollout takes them.",
				Computed:            true,
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"index":    schema.Int64Attribute{MarkdownDescription: "Number of the group, from 0.", Computed: true},
					"name":     schema.StringAttribute{MarkdownDescription: "Name of the group; empty for clusters of no named group.", Computed: true},
					"clusters": schema.ListAttribute{MarkdownDescription: "Names of the group's clusters, in the order that the placement's `sort_by` asks for.", Computed: true, ElementType: types.StringType},
				}},
			},
			"satisfied": schema.BoolAttribute{
				MarkdownDescription: "Whether as many clusters were found as the placement asks for.",
				Computed:            true,
			},
			"conditions": attribute.ConditionsAttribute("Conditions of the placement, which explain what is missing."),
		},
		Blocks: map[string]schema.Block{
			"timeouts": timeouts.BlockWithOpts(ctx, timeouts.Opts{ReadDescription: attribute.TimeoutText("the wait", defaultDecisionWait)}),
		},
	}
}

func (d *placementDecisionsDataSource) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	if d.Deferred(req, resp) {
		return
	}
	var model placementDecisionsModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	timeout, diags := model.Timeouts.Read(ctx, defaultDecisionWait)
	resp.Diagnostics.Append(diags...)
	client := d.Hub.QueryClient(&resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	namespace, name := model.Namespace.ValueString(), model.Placement.ValueString()
	doing := fmt.Sprintf("read the decisions of placement %q", namespace+"/"+name)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	placement := &clusterv1beta1.Placement{}
	decisions := &clusterv1beta1.PlacementDecisionList{}
	missing := false
	err := client.Wait(ctx, placement, namespace, name, func(exists bool) (bool, error) {
		if missing = !exists; missing {
			return true, nil
		}
		if !model.enough(placement) {
			return false, nil
		}
		// Decisions are written before the placement's status, so they are there.
		err := client.List(ctx, decisions, kube.ListOptions{Namespace: namespace, LabelSelector: cluster.PlacementLabel + "=" + name})
		return err == nil, err
	})
	switch {
	case hub.IsTimeout(err):
		resp.Diagnostics.AddError(fmt.Sprintf("Placement %q is not decided as asked for", namespace+"/"+name),
			fmt.Sprintf("After %s it has %d clusters. Conditions:\n%s\n\nNext:\n  kubectl describe placement -n %s %s",
				timeout, placement.Status.NumberOfSelectedClusters, hub.DescribeConditions(placement.Status.Conditions, time.Now()), namespace, name))
		return
	case err != nil:
		hub.AddAPIError(&resp.Diagnostics, client, doing, err)
		return
	case missing:
		resp.Diagnostics.AddError("Cannot "+doing, fmt.Sprintf("The hub %s has no placement %q in namespace %q. Refer to a muster_placement resource, or correct the names.", client.Host(), name, namespace))
		return
	}
	_, groups := decided(decisions.Items)
	model.Clusters, model.Groups = model.narrow(groups)
	model.Satisfied = types.BoolValue(meta.IsStatusConditionTrue(placement.Status.Conditions, cluster.ConditionPlacementSatisfied))
	model.Conditions = attribute.ConditionModels(placement.Status.Conditions)
	resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
}

// enough reports whether the scheduler has answered as it was asked to. Schedulers
// that do not say which generation they have seen are believed.
func (m *placementDecisionsModel) enough(placement *clusterv1beta1.Placement) bool {
	c := meta.FindStatusCondition(placement.Status.Conditions, cluster.ConditionPlacementSatisfied)
	if c == nil || (c.ObservedGeneration != 0 && c.ObservedGeneration < placement.Generation) {
		return false
	}
	if m.Wait.ValueBool() && c.Status != metav1.ConditionTrue {
		return false
	}
	return int64(placement.Status.NumberOfSelectedClusters) >= m.MinClusters.ValueInt64()
}

// narrow leaves the groups that are asked for, and their clusters.
func (m *placementDecisionsModel) narrow(groups []decidedGroupModel) ([]types.String, []decidedGroupModel) {
	left := []decidedGroupModel{}
	var clusters []string
	for _, group := range groups {
		if (!m.GroupName.IsNull() && !m.GroupName.Equal(group.Name)) || (!m.GroupIndex.IsNull() && !m.GroupIndex.Equal(group.Index)) {
			continue
		}
		left = append(left, group)
		clusters = append(clusters, attribute.Texts(group.Clusters)...)
	}
	return append([]types.String{}, attribute.TextValues(attribute.Sorted(clusters))...), left
}

// decided puts the decisions together: all clusters, sorted, and the groups in
// order, whose clusters are in the order of the decisions.
func decided(decisions []clusterv1beta1.PlacementDecision) ([]types.String, []decidedGroupModel) {
	var all []string
	byIndex := map[int64]*decidedGroupModel{}
	clusters := map[int64][]string{}
	var indices []int64
	decisions = slices.Clone(decisions)
	slices.SortStableFunc(decisions, func(a, b clusterv1beta1.PlacementDecision) int {
		return cmp.Compare(decisionNumber(a.Name), decisionNumber(b.Name))
	})
	for _, decision := range decisions {
		index, _ := strconv.ParseInt(decision.Labels[cluster.DecisionGroupIndexLabel], 10, 64)
		if byIndex[index] == nil {
			byIndex[index] = &decidedGroupModel{Index: types.Int64Value(index), Name: types.StringValue(decision.Labels[cluster.DecisionGroupNameLabel])}
			indices = append(indices, index)
		}
		for _, d := range decision.Status.Decisions {
			clusters[index] = append(clusters[index], d.ClusterName)
			all = append(all, d.ClusterName)
		}
	}
	slices.Sort(indices)
	groups := []decidedGroupModel{}
	for _, index := range indices {
		if len(clusters[index]) == 0 {
			continue
		}
		group := byIndex[index]
		group.Clusters = append([]types.String{}, attribute.TextValues(clusters[index])...)
		groups = append(groups, *group)
	}
	return append([]types.String{}, attribute.TextValues(attribute.Sorted(all))...), groups
}

// decisionNumber is the number at the end of a decision's name, by which the
// decisions of a placement follow each other.
func decisionNumber(name string) uint64 {
	number, err := strconv.ParseUint(name[strings.LastIndex(name, "-")+1:], 10, 32)
	if err != nil {
		return 0
	}
	return number
}
