package placement

import (
	"context"
	"regexp"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

type (
	values          = attribute.Values
	placementChange = crud.Change[placement]
)

// Placement is muster_placement.
func Placement() crud.Declared {
	return &crud.Kind[placement]{
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
		Table: placementTable(),
		Timeouts: crud.Timeouts{
			Create: "creating, with `wait`,", Update: "changing, with `wait`,", Delete: "deleting",
		},
		Waits: &crud.Waits{Reported: choice().Names()},
		Hooks: crud.Hooks[placement]{
			Validate:    checkPlacement,
			Plan:        planPlacement,
			BeforeWrite: expect,
			AfterWrite: func(_ context.Context, c *placementChange) bool {
				if c.Prior == nil {
					c.Plan["selected_clusters"] = types.ListNull(types.StringType)
				}
				return true
			},
			Follow: follow,
			AlsoRead: func(ctx context.Context, client *kube.Client, v values, live placement) (err error) {
				v["selected_clusters"], err = selected(ctx, client, live)
				return err
			},
		},
		List: &crud.List[placement]{
			Plural: "placements", Objects: &clusterv1beta1.PlacementList{},
			Sets: func(live placement) []string { return live.Spec.ClusterSets },
		},
	}
}

// placementTable are the attributes beside the keys.
func placementTable() attribute.Table[placement] {
	const rateLimit = "1m"
	return slices.Concat(selection(), choice(), attribute.Table[placement]{
		attribute.LabelsField[placement]("Labels of the placement itself."),
		attribute.AnnotationsField[placement]("Annotations of the placement. `" +
			cluster.SchedulingDisabledAnnotation + "` with the value `true` disables scheduling: its decisions then " +
			"stay as they are."),
		attribute.Text("score_rate_limit",
			attribute.Optional("The shortest time between two changes of the decisions because of scores: a number "+
				"with the unit `h`, `m` or `s`, such as `5m`. It is part of the API; neither upstream's scheduler (as "+
				"of 2025) nor muster's acts on it. If omitted, the hub sets `"+rateLimit+"`.",
				stringvalidator.RegexMatches(regexp.MustCompile(`^[0-9]+[hms]$`),
					"a rate limit is a whole number with the unit h, m or s, such as 5m")),
			func(p placement) *string { return &p.Spec.ScoreRateLimit }).
			Standard(types.StringValue(rateLimit)),
		attribute.Local[placement]("preview", attribute.OptionalFlag("Whether a plan that changes the selection of an "+
			"existing placement asks the hub for the fleet and warns of the clusters that it would add and drop. A "+
			"hub that does not answer at once is no error. Defaults to `true`.")),
		attribute.Local[placement]("wait", waitAttribute().Schema()),
		attribute.Local[placement]("ready",
			attribute.Ready("Whether what `wait` asks for was met; null without `wait`.")),
	})
}

// choice are the attributes that say which clusters are selected, and were expected to be.
func choice() attribute.Table[placement] {
	clusters := func(name, description string, planned bool) field {
		return attribute.Local[placement](name, schema.ListAttribute{
			MarkdownDescription: description, Optional: planned, Computed: true, ElementType: types.StringType,
		})
	}
	return attribute.Table[placement]{
		clusters("selected_clusters", "Clusters that are selected, as last read, in alphabetical order. Null while the "+
			"scheduler has not decided, and where the decisions may not be read.", false),
		clusters("planned_clusters", "Clusters that the last change of the placement was expected to select. Set from "+
			"the data source `muster_placement_preview`, it is shown in plans. While nothing else changes in the "+
			"selection, the previous value stays, so a change in the fleet causes no plan. If omitted, it is what "+
			"the scheduling library predicted right before the change was written, known only after the apply, and "+
			"null if the hub could not be asked or `preview` is `false`. It does not affect the selection.", true),
		clusters("planned_added", "Those of `planned_clusters` that were not selected before the change.", false),
		clusters("planned_dropped", "Those that were selected before the change and are not in `planned_clusters`.",
			false),
	}
}
