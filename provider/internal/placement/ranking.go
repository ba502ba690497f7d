package placement

import (
	"fmt"
	"regexp"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

// How qualifying clusters are ranked, spread and grouped.

func prioritizerPolicy() field {
	const additive, exact = clusterv1beta1.PrioritizerPolicyModeAdditive, clusterv1beta1.PrioritizerPolicyModeExact
	type policy = *clusterv1beta1.PrioritizerPolicy
	return attribute.Object("prioritizer_policy",
		schema.SingleNestedAttribute{
			MarkdownDescription: "The scores by which the qualifying clusters are ranked when not all of them are " +
				"selected. If omitted, clusters that few other placements chose and clusters that are already " +
				"selected come first.",
			Optional: true,
		},
		func(p placement) policy { return &p.Spec.PrioritizerPolicy },
		attribute.Text("mode",
			attribute.Optional("`Additive`: `Balance` and `Steady` count with weight 1 beside what is configured. "+
				"`Exact`: only the configured scores count. Defaults to `Additive`.", attribute.OneOf(additive, exact)...),
			func(p policy) *clusterv1beta1.PrioritizerPolicyModeType { return &p.Mode }).
			Default(types.StringValue(string(additive))),
		attribute.Objects("configurations",
			schema.ListNestedAttribute{
				MarkdownDescription: "Scores and their weights.",
				Optional:            true,
				NestedObject: schema.NestedAttributeObject{
					Validators: []validator.Object{attribute.ExactlyOne("built_in", "add_on")},
				},
			},
			func(p policy) *[]clusterv1beta1.PrioritizerConfig { return &p.Configurations },
			prioritizer()...),
	).EmptyIsNone()
}

func prioritizer() attribute.Table[*clusterv1beta1.PrioritizerConfig] {
	type config = *clusterv1beta1.PrioritizerConfig
	type score = *clusterv1beta1.AddOnScore
	coordinate := func(c config) *clusterv1beta1.ScoreCoordinate {
		if c.ScoreCoordinate == nil {
			c.ScoreCoordinate = &clusterv1beta1.ScoreCoordinate{Type: clusterv1beta1.ScoreCoordinateTypeBuiltIn}
		}
		return c.ScoreCoordinate
	}
	return attribute.Table[config]{
		attribute.Text("built_in",
			attribute.Optional("Built-in score of the scheduler: `Balance`, `Steady`, `ResourceAllocatableCPU` or "+
				"`ResourceAllocatableMemory`.",
				attribute.OneOf("Balance", "Steady", "ResourceAllocatableCPU", "ResourceAllocatableMemory")...),
			func(c config) *string { return &coordinate(c).BuiltIn }).
			Where(func(c config) bool { return coordinate(c).AddOn == nil }),
		attribute.ObjectPointer("add_on",
			schema.SingleNestedAttribute{
				MarkdownDescription: "Score from an AddOnPlacementScore in each cluster's namespace.", Optional: true,
			},
			func(c config) *score { return &coordinate(c).AddOn },
			attribute.Text("resource_name",
				attribute.Required("Name of the AddOnPlacementScore.", attribute.ValidObjectName("score object name")),
				func(s score) *string { return &s.ResourceName }),
			attribute.Text("score_name",
				attribute.Required("Name of the score in it.", stringvalidator.LengthAtLeast(1)),
				func(s score) *string { return &s.ScoreName })).
			Sets(func(c config) { coordinate(c).Type = clusterv1beta1.ScoreCoordinateTypeAddOn }),
		attribute.NumberPointer("weight",
			attribute.OptionalNumber("Factor from -10 to 10. `0` switches the score off; a negative one prefers low "+
				"scores. Defaults to `1`.", int64validator.Between(-10, 10)),
			func(c config) **int32 { return &c.Weight }).
			Default(types.Int64Value(1)),
	}
}

// maxSpreadConstraints is how many constraints the API takes.
const maxSpreadConstraints = 8

func spreadPolicy() field {
	const leave, anyway = clusterv1beta1.DoNotSchedule, clusterv1beta1.ScheduleAnyway
	type policy = *clusterv1beta1.SpreadPolicy
	type term = *clusterv1beta1.SpreadConstraintsTerm
	return attribute.Object("spread_policy",
		schema.SingleNestedAttribute{
			MarkdownDescription: "Spreads the selected clusters over the values of labels or claims, where " +
				"`number_of_clusters` leaves a choice. muster's hub does so; upstream's scheduler (as of 2025) " +
				"accepts the field and ignores it.",
			Optional: true,
		},
		func(p placement) policy { return &p.Spec.SpreadPolicy },
		attribute.Objects("spread_constraints",
			schema.ListNestedAttribute{
				MarkdownDescription: "What to spread over, the most important first; at most 8.",
				Required:            true,
				Validators:          []validator.List{listvalidator.SizeBetween(1, maxSpreadConstraints)},
			},
			func(p policy) *[]clusterv1beta1.SpreadConstraintsTerm { return &p.SpreadConstraints },
			attribute.Text("topology_key",
				attribute.Required("Label or claim by whose values the clusters are divided, such as `region`.",
					attribute.ValidKey("topology key")),
				func(t term) *string { return &t.TopologyKey }),
			attribute.Text("topology_key_type",
				attribute.Required("`Label` or `Claim`.", stringvalidator.OneOf(
					string(clusterv1beta1.TopologyKeyTypeLabel), string(clusterv1beta1.TopologyKeyTypeClaim))),
				func(t term) *clusterv1beta1.TopologyKeyType { return &t.TopologyKeyType }),
			attribute.Number("max_skew",
				attribute.OptionalNumber("The greatest difference between the numbers of clusters of any two values, "+
					"at least 1. Defaults to `1`.", int64validator.Between(1, 1<<31-1)),
				func(t term) *int32 { return &t.MaxSkew }).
				Default(types.Int64Value(1)),
			attribute.Text("when_unsatisfiable",
				attribute.Optional("What to do when `max_skew` can't be kept: leave clusters out (`DoNotSchedule`) or "+
					"select them anyway (`ScheduleAnyway`). Defaults to `ScheduleAnyway`.",
					attribute.OneOf(leave, anyway)...),
				func(t term) *clusterv1beta1.UnsatisfiableMaxSkewAction { return &t.WhenUnsatisfiable }).
				Default(types.StringValue(string(anyway)))))
}

func decisionStrategy() field {
	const all = "100%"
	type strategy = *clusterv1beta1.GroupStrategy
	type group = *clusterv1beta1.DecisionGroup
	return attribute.Object("decision_strategy",
		schema.SingleNestedAttribute{
			MarkdownDescription: "Divides the selected clusters into groups, for rollouts group by group.",
			Optional:            true,
		},
		func(p placement) strategy { return &p.Spec.DecisionStrategy.GroupStrategy },
		attribute.Code("clusters_per_decision_group",
			attribute.Optional("The most clusters that a group may have: a number such as `\"5\"`, or a percentage of "+
				"the selected clusters such as `\"20%\"`. Defaults to `100%`.",
				attribute.ValidText("a number from 1, or a percentage from 1% to 100%", checkGroupSize)),
			func(size types.String, s strategy) { s.ClustersPerDecisionGroup = intstr.Parse(size.ValueString()) },
			func(s strategy) types.String {
				if s.ClustersPerDecisionGroup == (intstr.IntOrString{}) {
					return types.StringNull()
				}
				return types.StringValue(s.ClustersPerDecisionGroup.String())
			}).
			Default(types.StringValue(all)),
		attribute.Objects("decision_groups",
			schema.ListNestedAttribute{
				MarkdownDescription: "Named groups. A cluster goes to the first that selects it; those that none " +
					"selects form groups without a name.",
				Optional: true,
			},
			func(s strategy) *[]clusterv1beta1.DecisionGroup { return &s.DecisionGroups },
			attribute.Text("name",
				attribute.Required("Name of the group: 2 to 63 letters, digits, hyphens, underscores and dots.",
					stringvalidator.RegexMatches(regexp.MustCompile(`^[a-zA-Z0-9][-A-Za-z0-9_.]{0,61}[a-zA-Z0-9]$`),
						"a group name has 2 to 63 letters, digits, hyphens, underscores and dots, with a letter or "+
							"digit at both ends")),
				func(g group) *string { return &g.GroupName }),
			labelSelector(func(g group) *metav1.LabelSelector { return &g.GroupClusterSelector.LabelSelector }),
			claimSelector(func(g group) *claims { return &g.GroupClusterSelector.ClaimSelector })),
	).EmptyIsNone()
}

var groupSize = regexp.MustCompile(`^((100|[1-9][0-9]?)%|[1-9][0-9]{0,8})$`)

func checkGroupSize(_ path.Path, size string) (summary, detail string) {
	if groupSize.MatchString(size) {
		return "", ""
	}
	return "Invalid group size", fmt.Sprintf("%q is not a size for a group of clusters: give a number from 1, or a "+
		"percentage from 1%% to 100%%.", size)
}
