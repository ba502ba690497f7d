// Package placement has the resources muster_placement and
// muster_addon_placement_score and the data sources of placements: their
// decisions, and what a placement would select.
package placement

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
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
		clusters("selected_clusters", "Clusters that are selected, as last read, in alphabetical order. Null while "+
			"the scheduler has not decided, and where the decisions may not be read.", false),
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

// settleTime is how long an apply without a wait lets the scheduler decide before
// it reads the decisions.
const settleTime = 5 * time.Second

// expect fills in what a change is expected to select where the plan left that
// open. It has to run before the change is written.
func expect(ctx context.Context, c *placementChange) bool {
	plan := c.Plan
	if !plan["planned_clusters"].IsUnknown() {
		return true
	}
	preview, _ := predict(ctx, c.Hub, plan) // The write reports an error, if that matters.
	plan["planned_clusters"] = attribute.StringListValue(preview.Clusters)
	plan["planned_added"] = attribute.StringListValue(preview.Added)
	plan["planned_dropped"] = attribute.StringListValue(preview.Dropped)
	return true
}

// follow is what comes after a placement was written: a wait where one is asked
// for, and otherwise a while for the scheduler to decide in.
func follow(ctx context.Context, c *placementChange) crud.Follow {
	plan, object := c.Plan, c.Object
	f := crud.Follow{
		Attribute: waitAttribute(),
		Report: func() {
			reading, cancel := context.WithTimeout(context.WithoutCancel(ctx), hub.ReadTimeout)
			defer cancel()
			plan["selected_clusters"] = selectedSince(reading, c)
		},
	}
	if wait := attribute.As[*waitModel](plan["wait"]); wait != nil {
		f.Wait = wait.wait(c.Client, c.What, object, c.Timeout).Run
	}
	if c.Prior == nil || plan["selected_clusters"].IsUnknown() {
		f.Settle = func(waiting context.Context) { settle(waiting, c.Client, plan, object) }
	}
	return f
}

// settle lets the scheduler decide for a while. Nobody asked for that, so it is no error
// if it does not.
func settle(ctx context.Context, client *kube.Client, plan values, object placement) {
	if schedulingDisabled(plan) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	_ = client.Wait(ctx, object, object.Namespace, object.Name, func(exists bool) (bool, error) {
		return !exists || decidedOn(object), nil
	})
}

// selectedSince is what selected says after a write; null if the scheduler has not dealt
// with that.
func selectedSince(ctx context.Context, c *placementChange) types.List {
	if !schedulingDisabled(c.Plan) && !decidedOn(c.Object) {
		return types.ListNull(types.StringType)
	}
	clusters, err := selected(ctx, c.Client, c.Object)
	if err != nil {
		hub.AddAPIError(c.Diagnostics, c.Client, "read the decisions of "+c.What, err)
	}
	return clusters
}

// selected lists the clusters in the placement's decisions; null where the
// scheduler has never decided and where they may not be read.
func selected(ctx context.Context, client *kube.Client, object placement) (types.List, error) {
	none := types.ListNull(types.StringType)
	if meta.FindStatusCondition(object.Status.Conditions, cluster.ConditionPlacementSatisfied) == nil {
		return none, nil
	}
	made, err := decisionsOf(ctx, client, object.Namespace, object.Name)
	switch {
	case apierrors.IsForbidden(err):
		return none, nil
	case err != nil:
		return none, fmt.Errorf("read its decisions: %w", err)
	}
	clusters, _ := decided(made)
	return attribute.StringListValue(clusters), nil
}

// When a placement is what a wait waits for.

type waitModel struct {
	Satisfied   types.Bool     `tfsdk:"satisfied"`
	MinClusters types.Int64    `tfsdk:"min_clusters"`
	Conditions  []types.String `tfsdk:"conditions"`
}

func waitAttribute() crud.WaitAttribute {
	return crud.WaitAttribute{
		Kind: "placement",
		Lost: "the placement and everything that follows its decisions",
		Notes: "Upstream's scheduler does not set the observed generation of conditions: " +
			"there, a condition from before an update counts.",
		Options: crud.WaitOptions{
			crud.WaitFlag("satisfied", "Whether to wait until as many clusters are selected as the placement asks "+
				"for; at least one. It is the condition `PlacementSatisfied`."),
			crud.WaitCount("min_clusters", "Waits until at least this many clusters are selected."),
			crud.WaitConditions("Conditions of the placement to wait for, each as its type, which then has to be " +
				"true, or as `type=status`, such as `PlacementMisconfigured=False`."),
		},
	}
}

// wait waits for a placement.
func (m *waitModel) wait(
	client *kube.Client, what string, object *clusterv1beta1.Placement, timeout time.Duration,
) *crud.Wait {
	return &crud.Wait{
		Client: client, What: what, Resource: "placement", Object: object, Timeout: timeout,
		Missing:    func() []string { return m.missing(object) },
		Conditions: func() []metav1.Condition { return object.Status.Conditions },
		Details: func(context.Context) []string {
			lines := []string{fmt.Sprintf("Selected clusters: %d.", object.Status.NumberOfSelectedClusters)}
			if remedy := placementRemedy(object); remedy != "" {
				lines = append(lines, "", remedy)
			}
			return lines
		},
	}
}

// missing lists what is not as the wait wants it.
func (m *waitModel) missing(object *clusterv1beta1.Placement) []string {
	wanted := attribute.WaitConditionsAnd(m.Conditions, m.Satisfied, cluster.ConditionPlacementSatisfied)
	missing := attribute.UnmetConditions(wanted, object.Status.Conditions, object.Generation, "the scheduler")
	have, want := int64(object.Status.NumberOfSelectedClusters), m.MinClusters.ValueInt64()
	if have < want || (want > 0 && !decidedOn(object)) {
		missing = append(missing, fmt.Sprintf("min_clusters: %d of %d are selected", have, want))
	}
	return missing
}

// decidedOn reports whether the scheduler has dealt with the placement as it is now.
// Schedulers that do not say which generation they have seen are believed.
func decidedOn(object *clusterv1beta1.Placement) bool {
	c := meta.FindStatusCondition(object.Status.Conditions, cluster.ConditionPlacementSatisfied)
	return c != nil && (c.ObservedGeneration == 0 || c.ObservedGeneration >= object.Generation)
}

// placementRemedy is what helps a placement that is not satisfied.
func placementRemedy(object *clusterv1beta1.Placement) string {
	if meta.IsStatusConditionTrue(object.Status.Conditions, cluster.ConditionPlacementMisconfigured) {
		return "Correct what the condition PlacementMisconfigured names."
	}
	c := meta.FindStatusCondition(object.Status.Conditions, cluster.ConditionPlacementSatisfied)
	if c == nil {
		return "Perhaps no scheduler runs on the hub."
	}
	switch c.Reason {
	case cluster.ReasonNoManagedClusterSetBindings:
		return "Bind a cluster set to the namespace with a muster_managed_cluster_set_binding, and let the " +
			"placement depend on it: kubectl get managedclustersetbindings -n " + object.Namespace
	case cluster.ReasonNoIntersection:
		return fmt.Sprintf("None of the sets in cluster_sets (%s) is bound to the namespace: kubectl get "+
			"managedclustersetbindings -n %s",
			strings.Join(object.Spec.ClusterSets, ", "), object.Namespace)
	case cluster.ReasonAllManagedClusterSetsEmpty:
		return "Put clusters into these sets with cluster_set of muster_managed_cluster."
	case cluster.ReasonNoManagedClusterMatched, cluster.ReasonNotAllDecisionsScheduled:
		return "The data source muster_placement_preview explains why each cluster is not selected. " +
			"Often it is a taint: clusters that are not accepted, or whose agent is silent, have one."
	}
	return ""
}
