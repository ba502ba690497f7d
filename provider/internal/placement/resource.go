package placement

import (
	"context"
	"regexp"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

type placementChange = crud.Change[placementModel, *clusterv1beta1.Placement]

// Placement is muster_placement.
func Placement() crud.Declared {
	type object = *clusterv1beta1.Placement
	return &crud.Kind[placementModel, object]{
		Type: "placement", Noun: "placement", Empty: &clusterv1beta1.Placement{},
		Description: "Selects managed clusters out of the cluster sets that are bound to its namespace, and keeps " +
			"the selection current. The data source `muster_placement_decisions` reads it by groups.\n\n" +
			"A cluster that is not accepted, or whose agent is silent, carries the taint " +
			"`cluster.open-cluster-management.io/unreachable` and is not selected unless a toleration excuses " +
			"it.\n\n" +
			"What is left out means something, such as all clusters for `number_of_clusters`: where somebody else " +
			"sets such a field on the hub, a plan shows it, and an apply removes it.\n\n" +
			"A plan that changes the selection of an existing placement warns of the clusters that it would add and " +
			"drop, computed by the hub's scheduling library from the fleet at that moment (with `-refresh=false` it " +
			"says nothing). They are not planned values, because the fleet may change before the apply, and " +
			"Terraform would report that as an error. To have them in the plan, for example for a `precondition`, " +
			"set `planned_clusters` to what the data source `muster_placement_preview` predicts: Terraform reads it " +
			"once and keeps the result.",
		Keys: []crud.Key{
			{
				Name: "namespace",
				Description: "Namespace on the hub. It has to exist, for example as a `muster_namespace`, " +
					"and a cluster set has to be bound to it. Changing it replaces the placement.",
				Valid: attribute.ValidName("namespace"),
			},
			{
				Name: "name",
				Description: "Name of the placement. It becomes a label on its decisions, so it has at most 63 " +
					"characters. Changing it replaces the placement.",
				Valid: attribute.ValidName("placement name"),
			},
		},
		Model: &crud.Conversion[placementModel, object]{
			Attributes: placementAttributes,
			Object:     (*placementModel).object,
			Observe: func(m *placementModel, live object) error {
				m.observe(live)
				return nil
			},
			Import: func(live object) (*placementModel, error) {
				m := importPlacement(live)
				return &m, nil
			},
			Unwanted: (*placementModel).unwanted,
		},
		Timeouts: crud.Timeouts{
			Create: "creating, with `wait`,", Update: "changing, with `wait`,", Delete: "deleting",
		},
		Hooks: crud.Hooks[placementModel, object]{
			Validate: func(ctx context.Context, config tfsdk.Config, diags *diag.Diagnostics) {
				diags.Append(checkPlacement(ctx, config)...)
			},
			Plan:        planPlacement,
			BeforeWrite: expect,
			AfterWrite: func(_ context.Context, c *placementChange) bool {
				if c.Prior == nil {
					c.Plan.SelectedClusters = types.ListNull(types.StringType)
				}
				return true
			},
			Follow: follow,
			AlsoRead: func(ctx context.Context, client *kube.Client, m *placementModel, live object) (err error) {
				m.SelectedClusters, err = selected(ctx, client, live)
				return err
			},
		},
		List: &crud.List[object]{
			Plural: "placements", Objects: &clusterv1beta1.PlacementList{},
			Sets: func(live object) []string { return live.Spec.ClusterSets },
		},
	}
}

// placementAttributes are those beside its keys.
func placementAttributes() map[string]schema.Attribute {
	attributes := placementSpecAttributes()
	for name, attribute := range placementChoiceAttributes() {
		attributes[name] = attribute
	}
	for name, attribute := range map[string]schema.Attribute{
		"labels": attribute.Labels("Labels of the placement itself.", nil),
		"annotations": attribute.Annotations("Annotations of the placement. `" + cluster.SchedulingDisabledAnnotation +
			"` with the value `true` disables scheduling: its decisions then stay as they are."),
		"score_rate_limit": attribute.Optional("The shortest time between two changes of the decisions because of "+
			"scores: a number with the unit `h`, `m` or `s`, such as `5m`. It is part of the API; neither "+
			"upstream's scheduler (as of 2025) nor muster's acts on it. If omitted, the hub sets "+
			"`"+defaultScoreRateLimit+"`.",
			stringvalidator.RegexMatches(regexp.MustCompile(`^[0-9]+[hms]$`),
				"a rate limit is a whole number with the unit h, m or s, such as 5m")),
		"preview": schema.BoolAttribute{
			MarkdownDescription: "Whether a plan that changes the selection of an existing placement asks the hub " +
				"for the fleet and warns of the clusters that it would add and drop. A hub that does not answer at " +
				"once is no error. Defaults to `true`.",
			Optional: true,
		},
		"wait":  waitAttribute().Schema(),
		"ready": attribute.Ready("Whether what `wait` asks for was met; null without `wait`."),
	} {
		attributes[name] = attribute
	}
	return attributes
}

// placementSpecAttributes are those by which clusters are selected.
func placementSpecAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"cluster_sets": schema.ListAttribute{
			MarkdownDescription: "Cluster sets to select from. Those that are not bound to the namespace are " +
				"ignored. If omitted, all that are bound.",
			Optional:    true,
			ElementType: types.StringType,
			Validators:  []validator.List{listvalidator.UniqueValues(), listvalidator.ValueStringsAre(attribute.ValidName("cluster set name"))},
		},
		"number_of_clusters": schema.Int64Attribute{
			MarkdownDescription: "The greatest number of clusters to select. If omitted, all that qualify; `0` " +
				"selects none.",
			Optional:   true,
			Validators: []validator.Int64{int64validator.Between(0, 1<<31-1)},
		},
		"predicates":         predicatesAttribute(),
		"prioritizer_policy": prioritizerPolicyAttribute(),
		"spread_policy":      spreadPolicyAttribute(),
		"tolerations":        tolerationsAttribute(),
		"decision_strategy":  decisionStrategyAttribute(),
		"sort_by": schema.StringAttribute{
			MarkdownDescription: "Order of the clusters in the decisions: `ClusterName`, or `Score` for the best " +
				"first. It does not change which are selected. muster's hub does so; upstream's scheduler (as of " +
				"2025) always orders by name. If omitted, the hub sets `" + string(defaultSortBy) + "`.",
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
	planned := list("Clusters that the last change of the placement was expected to select. Set from the data " +
		"source `muster_placement_preview`, it is shown in plans. While nothing else changes in the selection, the " +
		"previous value stays, so a change in the fleet causes no plan. If omitted, it is what the scheduling " +
		"library predicted right before the change was written, known only after the apply, and null if the hub " +
		"could not be asked or `preview` is `false`. It does not affect the selection.")
	planned.Optional = true
	return map[string]schema.Attribute{
		"selected_clusters": list("Clusters that are selected, as last read, in alphabetical order. Null while the " +
			"scheduler has not decided, and where the decisions may not be read."),
		"planned_clusters": planned,
		"planned_added":    list("Those of `planned_clusters` that were not selected before the change."),
		"planned_dropped":  list("Those that were selected before the change and are not in `planned_clusters`."),
	}
}
