package placement

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/datasource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

var (
	_ datasource.DataSourceWithConfigure      = (*placementPreviewDataSource)(nil)
	_ datasource.DataSourceWithValidateConfig = (*placementPreviewDataSource)(nil)
)

const defaultPreviewRead = time.Minute

type placementPreviewDataSource struct{ crud.DataSource }

type placementPreviewModel struct {
	Namespace types.String `tfsdk:"namespace"`
	Name      types.String `tfsdk:"name"`
	Explain   types.Bool   `tfsdk:"explain"`
	placementSpecModel

	Exists       types.Bool          `tfsdk:"exists"`
	Clusters     []types.String      `tfsdk:"clusters"`
	Added        []types.String      `tfsdk:"added"`
	Dropped      []types.String      `tfsdk:"dropped"`
	Groups       []decidedGroupModel `tfsdk:"groups"`
	Satisfied    types.Bool          `tfsdk:"satisfied"`
	Conditions   []foreseenModel     `tfsdk:"conditions"`
	Explanations types.List          `tfsdk:"explanations"`
	Timeouts     timeouts.Value      `tfsdk:"timeouts"`
}

// foreseenModel is a condition as it would be, which has no time.
type foreseenModel struct {
	Type    types.String `tfsdk:"type"`
	Status  types.String `tfsdk:"status"`
	Reason  types.String `tfsdk:"reason"`
	Message types.String `tfsdk:"message"`
}

// explanationType is that of an explanation: why a cluster would be selected, or
// not. There is one for each cluster of the fleet, so explanations are made as
// values at once: the framework takes a second to turn ten thousand structs into
// values.
func explanationType() types.ObjectType {
	return types.ObjectType{AttrTypes: map[string]attr.Type{
		"cluster": types.StringType, "selected": types.BoolType, "rank": types.Int64Type, "score": types.Int64Type,
		"reason": types.StringType, "scores": types.MapType{ElemType: types.Int64Type},
	}}
}

// NewPreviewDataSource is the data source muster_placement_preview.
func NewPreviewDataSource() datasource.DataSource { return &placementPreviewDataSource{} }

func (d *placementPreviewDataSource) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_placement_preview"
}

func (d *placementPreviewDataSource) Schema(ctx context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	attributes := attribute.InputAttributes(placementSpecAttributes())
	list := func(description string) schema.ListAttribute {
		return schema.ListAttribute{MarkdownDescription: description, Computed: true, ElementType: types.StringType}
	}
	for name, attribute := range map[string]schema.Attribute{
		"namespace": schema.StringAttribute{
			MarkdownDescription: "Namespace that the placement is in, or would be: the cluster sets that are bound to it take part.",
			Required:            true,
			Validators:          []validator.String{attribute.ValidName("namespace")},
		},
		"name": schema.StringAttribute{
			MarkdownDescription: "Name of the placement. Where there is one of that name, the clusters that it has now count as selected, as for the hub: they have an advantage by the score `Steady`, and tolerate taints with the effect `NoSelectIfNew`. " +
				"If no other argument of the selection is set here, that placement's selection is used.",
			Optional:   true,
			Validators: []validator.String{attribute.ValidName("placement name")},
		},
		"explain": schema.BoolAttribute{
			MarkdownDescription: "Whether to explain for every cluster why it is selected or not, in `explanations`. Defaults to `true`; `false` keeps the state of a large fleet small.",
			Optional:            true,
		},
		"exists":   schema.BoolAttribute{MarkdownDescription: "Whether the hub has a placement of this `name`.", Computed: true},
		"clusters": list("Names of the clusters that would be selected, in alphabetical order."),
		"added":    list("Clusters among them that the placement does not have now."),
		"dropped":  list("Clusters that the placement has now and would lose."),
		"groups": schema.ListNestedAttribute{
			MarkdownDescription: "The same by decision groups, in the order in which a rollout takes them.",
			Computed:            true,
			NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
				"index":    schema.Int64Attribute{MarkdownDescription: "Number of the group, from 0.", Computed: true},
				"name":     schema.StringAttribute{MarkdownDescription: "Name of the group; empty for clusters of no named group.", Computed: true},
				"clusters": list("Names of the group's clusters, in the order that `sort_by` asks for."),
			}},
		},
		"satisfied": schema.BoolAttribute{MarkdownDescription: "Whether as many clusters would be found as are asked for.", Computed: true},
		"conditions": schema.ListNestedAttribute{
			MarkdownDescription: "Conditions as the placement would have them, `PlacementMisconfigured` and `PlacementSatisfied`, which explain what is missing.",
			Computed:            true,
			NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
				"type":    attribute.TextAttributeOfData("Type of the condition."),
				"status":  attribute.TextAttributeOfData("`True` or `False`."),
				"reason":  attribute.TextAttributeOfData("Reason in one word."),
				"message": attribute.TextAttributeOfData("Reason in a sentence."),
			}},
		},
		"explanations": explanationsAttribute(),
	} {
		attributes[name] = attribute
	}
	resp.Schema = schema.Schema{
		MarkdownDescription: "What a placement would select, before it exists, and why: the hub's scheduling library, run on the present fleet. It changes nothing on the hub.\n\n" +
			"It takes the arguments of `muster_placement`. Other placements do not know a placement that does not exist yet, so its clusters do not count for their score `Balance`.",
		Attributes: attributes,
		Blocks: map[string]schema.Block{
			"timeouts": timeouts.BlockWithOpts(ctx, timeouts.Opts{ReadDescription: attribute.TimeoutText("reading the fleet", defaultPreviewRead)}),
		},
	}
}

// explanationsAttribute lists why each cluster is selected or not.
func explanationsAttribute() schema.ListNestedAttribute {
	return schema.ListNestedAttribute{
		MarkdownDescription: "Every cluster of the sets that take part: first those that qualify, by rank, then the others, by name. Null if `explain` is `false`.",
		Computed:            true,
		NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
			"cluster":  attribute.TextAttributeOfData("Name of the cluster."),
			"selected": schema.BoolAttribute{MarkdownDescription: "Whether it would be selected.", Computed: true},
			"rank":     schema.Int64Attribute{MarkdownDescription: "Its rank among those that qualify, from 1; null if it does not.", Computed: true},
			"score":    schema.Int64Attribute{MarkdownDescription: "Sum of its scores times their weights; null if it does not qualify.", Computed: true},
			"reason":   attribute.TextAttributeOfData("Why it is selected, or not."),
			"scores": schema.MapAttribute{
				MarkdownDescription: "The score from each prioritizer, from -100 to 100, before the weight: `Balance`, `Steady` and so on; of an add-on's score `AddOn/<resource>/<score>`. Null if it does not qualify.",
				Computed:            true, ElementType: types.Int64Type,
			},
		}},
	}
}

// ValidateConfig implements datasource.DataSourceWithValidateConfig.
func (d *placementPreviewDataSource) ValidateConfig(ctx context.Context, req datasource.ValidateConfigRequest, resp *datasource.ValidateConfigResponse) {
	resp.Diagnostics.Append(checkPlacement(ctx, req.Config)...)
}

func (d *placementPreviewDataSource) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	if d.Deferred(req, resp) {
		return
	}
	var model placementPreviewModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	timeout, diags := model.Timeouts.Read(ctx, defaultPreviewRead)
	resp.Diagnostics.Append(diags...)
	client := d.Hub.QueryClient(&resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	namespace, name := model.Namespace.ValueString(), model.Name.ValueString()
	placement := &clusterv1beta1.Placement{Spec: model.spec()}
	placement.Namespace, placement.Name = namespace, name
	model.Exists = types.BoolValue(false)
	if name != "" {
		live := &clusterv1beta1.Placement{}
		switch err := client.Get(ctx, live, namespace, name); {
		case kube.IsNotFound(err, name):
		case err != nil:
			hub.AddAPIError(&resp.Diagnostics, client, fmt.Sprintf("read placement %q", namespace+"/"+name), err)
			return
		default:
			model.Exists = types.BoolValue(true)
			if model.asksForNothing() {
				placement.Spec = live.Spec
			}
		}
	}
	snapshot, err := d.Hub.Fleet(ctx, client)
	if err != nil {
		hub.AddAPIError(&resp.Diagnostics, client, "predict the selection of a placement in namespace "+namespace, err)
		return
	}
	explain := model.Explain.IsNull() || model.Explain.ValueBool()
	model.observe(snapshot.Preview(placement, explain), explain)
	resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
}

// observe fills in what the preview tells.
func (m *placementPreviewModel) observe(p hub.Preview, explain bool) {
	list := func(names []string) []types.String { return append([]types.String{}, attribute.TextValues(names)...) }
	m.Clusters, m.Added, m.Dropped = list(p.Clusters), list(p.Added), list(p.Dropped)
	m.Satisfied = types.BoolValue(p.Satisfied().Status == metav1.ConditionTrue)
	m.Groups, m.Conditions = []decidedGroupModel{}, []foreseenModel{}
	for i, group := range p.Groups {
		if len(group.Clusters) > 0 {
			m.Groups = append(m.Groups, decidedGroupModel{Index: types.Int64Value(int64(i)), Name: types.StringValue(group.Name), Clusters: list(group.Clusters)})
		}
	}
	for _, c := range p.Conditions {
		m.Conditions = append(m.Conditions, foreseenModel{
			Type: types.StringValue(c.Type), Status: types.StringValue(string(c.Status)), Reason: types.StringValue(c.Reason), Message: types.StringValue(c.Message),
		})
	}
	m.Explanations = types.ListNull(explanationType())
	if explain {
		m.Explanations = explanations(p)
	}
}

// explanations tell of each cluster why it would be selected, or not.
func explanations(p hub.Preview) types.List {
	of := explanationType()
	values := make([]attr.Value, 0, len(p.Explanations))
	for _, e := range p.Explanations {
		rank, score, scores := types.Int64Null(), types.Int64Null(), types.MapNull(types.Int64Type)
		if e.Rank > 0 {
			given := make(map[string]attr.Value, len(e.Scores))
			for _, s := range e.Scores {
				given[s.Name] = types.Int64Value(s.Score)
			}
			rank, score, scores = types.Int64Value(int64(e.Rank)), types.Int64Value(e.Total), types.MapValueMust(types.Int64Type, given)
		}
		values = append(values, types.ObjectValueMust(of.AttrTypes, map[string]attr.Value{
			"cluster": types.StringValue(e.Cluster), "selected": types.BoolValue(e.Selected), "rank": rank, "score": score,
			"reason": types.StringValue(strings.Join(e.Reasons, "; ")), "scores": scores,
		}))
	}
	return types.ListValueMust(of, values)
}
