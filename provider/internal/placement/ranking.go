package placement

import (
	"context"
	"fmt"
	"regexp"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

// How qualifying clusters are ranked and grouped: prioritizers and decision
// groups.

type prioritizerPolicyModel struct {
	Mode           types.String       `tfsdk:"mode"`
	Configurations []prioritizerModel `tfsdk:"configurations"`
}

type prioritizerModel struct {
	BuiltIn types.String     `tfsdk:"built_in"`
	AddOn   *addOnScoreModel `tfsdk:"add_on"`
	Weight  types.Int64      `tfsdk:"weight"`
}

type addOnScoreModel struct {
	ResourceName types.String `tfsdk:"resource_name"`
	ScoreName    types.String `tfsdk:"score_name"`
}

type decisionStrategyModel struct {
	ClustersPerGroup types.String         `tfsdk:"clusters_per_decision_group"`
	Groups           []decisionGroupModel `tfsdk:"decision_groups"`
}

type decisionGroupModel struct {
	Name          types.String                  `tfsdk:"name"`
	LabelSelector *attribute.LabelSelectorModel `tfsdk:"label_selector"`
	ClaimSelector *claimSelectorModel           `tfsdk:"claim_selector"`
}

func prioritizerPolicyAttribute() schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{
		MarkdownDescription: "The scores by which the qualifying clusters are ranked when not all of them are selected. If omitted, clusters that few other placements chose and clusters that are already selected come first.",
		Optional:            true,
		Attributes: map[string]schema.Attribute{
			"mode": schema.StringAttribute{
				MarkdownDescription: "`Additive`: `Balance` and `Steady` count with weight 1 beside what is configured. `Exact`: only the configured scores count. Defaults to `Additive`.",
				Optional:            true, Computed: true, Default: stringdefault.StaticString(string(clusterv1beta1.PrioritizerPolicyModeAdditive)),
				Validators: []validator.String{stringvalidator.OneOf(string(clusterv1beta1.PrioritizerPolicyModeAdditive), string(clusterv1beta1.PrioritizerPolicyModeExact))},
			},
			"configurations": schema.ListNestedAttribute{
				MarkdownDescription: "Scores and their weights.",
				Optional:            true,
				NestedObject: schema.NestedAttributeObject{
					Validators: []validator.Object{attribute.ExactlyOne("built_in", "add_on")},
					Attributes: map[string]schema.Attribute{
						"built_in": schema.StringAttribute{
							MarkdownDescription: "Built-in score of the scheduler: `Balance`, `Steady`, `ResourceAllocatableCPU` or `ResourceAllocatableMemory`.",
							Optional:            true,
							Validators:          attribute.OneOf("Balance", "Steady", "ResourceAllocatableCPU", "ResourceAllocatableMemory"),
						},
						"add_on": schema.SingleNestedAttribute{
							MarkdownDescription: "Score from an AddOnPlacementScore in each cluster's namespace.",
							Optional:            true,
							Attributes: map[string]schema.Attribute{
								"resource_name": schema.StringAttribute{MarkdownDescription: "Name of the AddOnPlacementScore.", Required: true, Validators: []validator.String{attribute.ValidObjectName("score object name")}},
								"score_name":    schema.StringAttribute{MarkdownDescription: "Name of the score in it.", Required: true, Validators: []validator.String{stringvalidator.LengthAtLeast(1)}},
							},
						},
						"weight": schema.Int64Attribute{
							MarkdownDescription: "Factor from -10 to 10. `0` switches the score off; a negative one prefers low scores. Defaults to `1`.",
							Optional:            true, Computed: true, Default: int64default.StaticInt64(1),
							Validators: []validator.Int64{int64validator.Between(-10, 10)},
						},
					},
				},
			},
		},
	}
}

func decisionStrategyAttribute() schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{
		MarkdownDescription: "Divides the selected clusters into groups, for rollouts group by group.",
		Optional:            true,
		Attributes: map[string]schema.Attribute{
			"clusters_per_decision_group": schema.StringAttribute{
				MarkdownDescription: "The most clusters that a group may have: a number such as `\"5\"`, or a percentage of the selected clusters such as `\"20%\"`. Defaults to `100%`.",
				Optional:            true, Computed: true, Default: stringdefault.StaticString(defaultGroupSize),
				Validators: []validator.String{groupSizeValidator{"a number from 1, or a percentage from 1% to 100%"}},
			},
			"decision_groups": schema.ListNestedAttribute{
				MarkdownDescription: "Named groups. A cluster goes to the first that selects it; those that none selects form groups without a name.",
				Optional:            true,
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"name": schema.StringAttribute{
						MarkdownDescription: "Name of the group: 2 to 63 letters, digits, hyphens, underscores and dots.",
						Required:            true,
						Validators: []validator.String{stringvalidator.RegexMatches(regexp.MustCompile(`^[a-zA-Z0-9][-A-Za-z0-9_.]{0,61}[a-zA-Z0-9]$`),
							"a group name has 2 to 63 letters, digits, hyphens, underscores and dots, with a letter or digit at both ends")},
					},
					"label_selector": attribute.LabelSelectorAttribute("Selects by the labels of the managed cluster."),
					"claim_selector": claimSelectorAttribute(),
				}},
			},
		},
	}
}

// groupSizeValidator admits numbers and percentages.
type groupSizeValidator struct{ attribute.Described }

func (v groupSizeValidator) ValidateString(_ context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	if text := req.ConfigValue.ValueString(); !regexp.MustCompile(`^((100|[1-9][0-9]?)%|[1-9][0-9]{0,8})$`).MatchString(text) {
		resp.Diagnostics.AddAttributeError(req.Path, "Invalid group size",
			fmt.Sprintf("%q is not a size for a group of clusters: give %s.", text, string(v.Described)))
	}
}

func (m *prioritizerPolicyModel) policy() clusterv1beta1.PrioritizerPolicy {
	if m == nil {
		return clusterv1beta1.PrioritizerPolicy{}
	}
	policy := clusterv1beta1.PrioritizerPolicy{Mode: clusterv1beta1.PrioritizerPolicyModeType(m.Mode.ValueString())}
	for _, p := range m.Configurations {
		weight := int32(1)
		if !p.Weight.IsNull() {
			weight = int32(p.Weight.ValueInt64()) //nolint:gosec // validated
		}
		coordinate := &clusterv1beta1.ScoreCoordinate{Type: clusterv1beta1.ScoreCoordinateTypeBuiltIn, BuiltIn: p.BuiltIn.ValueString()}
		if p.AddOn != nil {
			coordinate = &clusterv1beta1.ScoreCoordinate{
				Type:  clusterv1beta1.ScoreCoordinateTypeAddOn,
				AddOn: &clusterv1beta1.AddOnScore{ResourceName: p.AddOn.ResourceName.ValueString(), ScoreName: p.AddOn.ScoreName.ValueString()},
			}
		}
		policy.Configurations = append(policy.Configurations, clusterv1beta1.PrioritizerConfig{ScoreCoordinate: coordinate, Weight: &weight})
	}
	return policy
}

func prioritizerPolicyModelOf(policy clusterv1beta1.PrioritizerPolicy) *prioritizerPolicyModel {
	m := &prioritizerPolicyModel{Mode: attribute.OptionalString(string(policy.Mode))}
	for _, p := range policy.Configurations {
		c := prioritizerModel{Weight: types.Int64Value(1)}
		if p.Weight != nil {
			c.Weight = types.Int64Value(int64(*p.Weight))
		}
		switch {
		case p.ScoreCoordinate == nil:
		case p.ScoreCoordinate.AddOn != nil:
			c.AddOn = &addOnScoreModel{
				ResourceName: types.StringValue(p.ScoreCoordinate.AddOn.ResourceName),
				ScoreName:    types.StringValue(p.ScoreCoordinate.AddOn.ScoreName),
			}
		default:
			c.BuiltIn = attribute.OptionalString(p.ScoreCoordinate.BuiltIn)
		}
		m.Configurations = append(m.Configurations, c)
	}
	return m
}

func (m *decisionStrategyModel) strategy() clusterv1beta1.DecisionStrategy {
	if m == nil {
		return clusterv1beta1.DecisionStrategy{}
	}
	var strategy clusterv1beta1.DecisionStrategy
	strategy.GroupStrategy.ClustersPerDecisionGroup = intstr.Parse(m.ClustersPerGroup.ValueString())
	for _, g := range m.Groups {
		strategy.GroupStrategy.DecisionGroups = append(strategy.GroupStrategy.DecisionGroups, clusterv1beta1.DecisionGroup{
			GroupName: g.Name.ValueString(),
			GroupClusterSelector: clusterv1beta1.GroupClusterSelector{
				LabelSelector: g.LabelSelector.Selector(),
				ClaimSelector: g.ClaimSelector.Selector(),
			},
		})
	}
	return strategy
}

func decisionStrategyModelOf(strategy clusterv1beta1.DecisionStrategy) *decisionStrategyModel {
	m := &decisionStrategyModel{ClustersPerGroup: types.StringValue(strategy.GroupStrategy.ClustersPerDecisionGroup.String())}
	for _, g := range strategy.GroupStrategy.DecisionGroups {
		group := decisionGroupModel{Name: types.StringValue(g.GroupName), ClaimSelector: claimSelectorModelOf(g.GroupClusterSelector.ClaimSelector)}
		if s := g.GroupClusterSelector.LabelSelector; len(s.MatchLabels) > 0 || len(s.MatchExpressions) > 0 {
			group.LabelSelector = attribute.LabelSelectorModelOf(&s)
		}
		m.Groups = append(m.Groups, group)
	}
	return m
}
