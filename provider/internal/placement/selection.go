package placement

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

type (
	placement = *clusterv1beta1.Placement
	field     = attribute.Field[placement]
)

// selection are the attributes by which clusters are selected. The resource and the
// preview have them in common.
func selection() attribute.Table[placement] {
	const byName = clusterv1beta1.PlacementSortByClusterName
	return attribute.Table[placement]{
		attribute.TextList("cluster_sets",
			schema.ListAttribute{
				MarkdownDescription: "Cluster sets to select from. Those that are not bound to the namespace are " +
					"ignored. If omitted, all that are bound.",
				Optional: true,
				Validators: []validator.List{
					listvalidator.UniqueValues(),
					listvalidator.ValueStringsAre(attribute.ValidName("cluster set name")),
				},
			},
			func(p placement) *[]string { return &p.Spec.ClusterSets }),
		attribute.NumberPointer("number_of_clusters",
			attribute.OptionalNumber("The greatest number of clusters to select. If omitted, all that qualify; `0` "+
				"selects none.", int64validator.Between(0, 1<<31-1)),
			func(p placement) **int32 { return &p.Spec.NumberOfClusters }),
		predicates(), tolerations(), prioritizerPolicy(), spreadPolicy(), decisionStrategy(),
		attribute.Text("sort_by",
			attribute.Optional("Order of the clusters in the decisions: `ClusterName`, or `Score` for the best first. "+
				"It does not change which are selected. muster's hub does so; upstream's scheduler (as of 2025) "+
				"always orders by name. If omitted, the hub sets `"+string(byName)+"`.",
				stringvalidator.OneOf(string(byName), string(clusterv1beta1.PlacementSortByScore))),
			func(p placement) *clusterv1beta1.PlacementSortBy { return &p.Spec.SortBy }).
			Standard(types.StringValue(string(byName))),
	}
}

func predicates() field {
	type predicate = *clusterv1beta1.ClusterPredicate
	return attribute.Objects("predicates",
		schema.ListNestedAttribute{
			MarkdownDescription: "Alternatives by which a cluster can qualify: one matching entry is enough. Within " +
				"an entry everything has to match. If omitted, every cluster qualifies.",
			Optional:   true,
			Validators: []validator.List{listvalidator.SizeAtLeast(1)},
			NestedObject: schema.NestedAttributeObject{
				Validators: []validator.Object{attribute.ValidObject("a selector or expressions", checkPredicate)},
			},
		},
		func(p placement) *[]clusterv1beta1.ClusterPredicate { return &p.Spec.Predicates },
		attribute.ClusterSelectorFields(func(p predicate) *clusterv1beta1.ClusterSelector {
			return &p.RequiredClusterSelector
		})...)
}

// checkPredicate refuses a predicate that sets nothing. It would select every cluster,
// and is what remains of one whose attribute is misspelled: Terraform drops attributes
// of nested objects that the schema does not have.
func checkPredicate(at path.Path, predicate attribute.Values, diags *diag.Diagnostics) {
	names := slices.Sorted(maps.Keys(predicate))
	if !slices.ContainsFunc(names, predicate.IsSet) {
		diags.AddAttributeError(at, "Empty predicate", fmt.Sprintf("%s sets none of %s, so it would select every "+
			"cluster. Terraform leaves out attributes that it does not know: check their spelling. To select every "+
			"cluster, leave the predicate out.", at, strings.Join(names, ", ")))
	}
}

func tolerations() field {
	const equal, exists = clusterv1beta1.TolerationOpEqual, clusterv1beta1.TolerationOpExists
	type toleration = *clusterv1beta1.Toleration
	return attribute.Objects("tolerations",
		schema.ListNestedAttribute{
			MarkdownDescription: "Taints to tolerate. A cluster qualifies when each of its taints is tolerated.",
			Optional:            true,
			NestedObject: schema.NestedAttributeObject{Validators: []validator.Object{attribute.ValidObject(
				"a key, or the operator Exists; a value only with Equal", checkToleration)}},
		},
		func(p placement) *[]clusterv1beta1.Toleration { return &p.Spec.Tolerations },
		attribute.Text("key",
			attribute.Optional("Key of the taint. If omitted, with the operator `Exists`, all taints match.",
				attribute.ValidKey("taint key")),
			func(t toleration) *string { return &t.Key }),
		attribute.Text("operator",
			attribute.Optional("`Equal`: the taint has to have this `value`. `Exists`: any value will do. Defaults to "+
				"`Equal`.", attribute.OneOf(equal, exists)...),
			func(t toleration) *clusterv1beta1.TolerationOperator { return &t.Operator }).
			Default(types.StringValue(string(equal))),
		attribute.Text("value",
			attribute.Optional("Value of the taint, with the operator `Equal`.",
				stringvalidator.LengthBetween(1, 1024)),
			func(t toleration) *string { return &t.Value }),
		attribute.Text("effect",
			attribute.Optional("Effect of the taint: `NoSelect`, `NoSelectIfNew` or `PreferNoSelect`. If omitted, any.",
				attribute.OneOf(clusterv1.TaintEffectNoSelect, clusterv1.TaintEffectNoSelectIfNew,
					clusterv1.TaintEffectPreferNoSelect)...),
			func(t toleration) *clusterv1.TaintEffect { return &t.Effect }),
		attribute.NumberPointer("toleration_seconds",
			attribute.OptionalNumber("How long to tolerate the taint, in seconds from when it was set. If omitted, "+
				"forever; with `0`, not at all."),
			func(t toleration) **int64 { return &t.TolerationSeconds }))
}

// checkToleration refuses what the scheduler would otherwise call a misconfiguration,
// after emptying the decisions.
func checkToleration(at path.Path, toleration attribute.Values, diags *diag.Diagnostics) {
	if toleration["key"].IsUnknown() || toleration["operator"].IsUnknown() {
		return
	}
	exists := toleration.Text("operator") == string(clusterv1beta1.TolerationOpExists)
	if !toleration.IsSet("key") && !exists {
		diags.AddAttributeError(at, "Toleration without a key",
			fmt.Sprintf("%s has no key. A toleration without a key tolerates every taint and has to say so: set "+
				`operator = "Exists", or name a key.`, attribute.Place(at)))
	}
	if exists && toleration.IsSet("value") && !toleration["value"].IsUnknown() {
		diags.AddAttributeError(at.AtName("value"), "Needless value",
			fmt.Sprintf("The operator Exists tolerates any value, so value = %q has no place. Remove it, or use the "+
				"operator Equal.", toleration.Text("value")))
	}
}

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
				"`Exact`: only the configured scores count. Defaults to "+
				"`Additive`.", attribute.OneOf(additive, exact)...),
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
			attribute.ClusterLabelsField(func(g group) *metav1.LabelSelector {
				return &g.GroupClusterSelector.LabelSelector
			}),
			attribute.ClusterClaimsField(func(g group) *clusterv1beta1.ClusterClaimSelector {
				return &g.GroupClusterSelector.ClaimSelector
			})),
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
