package placement

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	resourceschema "github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

// NewDecisionsDataSource is the data source muster_placement_decisions.
func NewDecisionsDataSource() datasource.DataSource {
	return crud.Query{
		Type: "placement_decisions",
		Description: "The clusters that a placement has selected. It waits until the scheduler has processed the " +
			"placement's present content, so a placement that the same apply creates or changes gives its new result.",
		Attributes: func() map[string]schema.Attribute {
			attributes := attribute.ObservedAttributes(decisionsTable().Attributes())
			maps.Copy(attributes, attribute.InputAttributes(decisionsArguments()))
			return attributes
		},
		Takes: "the wait", Timeout: 2 * time.Minute,
		Read: readDecisions,
	}.NewDataSource()
}

func decisionsArguments() map[string]resourceschema.Attribute {
	return map[string]resourceschema.Attribute{
		"namespace": attribute.Required("Namespace of the placement.", attribute.ValidName("namespace")),
		"placement": attribute.Required("Name of the placement.", attribute.ValidName("placement name")),
		"wait": attribute.OptionalFlag("Whether to wait until the placement is satisfied, that is until it has as " +
			"many clusters as it asks for. Otherwise what is selected so far is returned. Defaults to `false`."),
		"min_clusters": attribute.OptionalNumber("Waits until at least this many clusters are selected, in all groups "+
			"together.", int64validator.AtLeast(0)),
		"group_name": attribute.Optional("Narrows `clusters` and `groups` to the decision groups of this name; " +
			"`\"\"` to the clusters of no named group. A name that no group has gives empty lists."),
		"group_index": attribute.OptionalNumber("Narrows `clusters` and `groups` to the decision group of this "+
			"number, from 0.", int64validator.AtLeast(0)),
	}
}

// decisions are what the data source shows of a placement.
type decisions struct {
	placement placement
	clusters  []string
	groups    []decidedGroup
}

// decidedGroup is a decision group with its clusters.
type decidedGroup struct {
	Index    int64
	Name     string
	Clusters []string
}

func decisionsTable() attribute.Table[*decisions] {
	return attribute.Table[*decisions]{
		attribute.ReportedTextList("clusters", "Names of the selected clusters, in alphabetical order.",
			func(d *decisions) []string { return d.clusters }),
		groupsField("the placement's `sort_by` asks for", func(d *decisions) []decidedGroup { return d.groups }),
		attribute.ReportedFlag("satisfied", "Whether as many clusters were found as the placement asks for.",
			func(d *decisions) bool { return satisfied(d.placement) }),
		attribute.ReportedConditions("Conditions of the placement, which explain what is missing.",
			func(d *decisions) []metav1.Condition { return d.placement.Status.Conditions }),
	}
}

// groupsField are decision groups. order says how the clusters of each are sorted.
func groupsField[P any](order string, read func(P) []decidedGroup) attribute.Field[P] {
	type group = decidedGroup
	return attribute.ReportedObjects("groups",
		"The same by decision groups, in the order in which a rollout takes them.", read,
		attribute.ReportedNumber("index", "Number of the group, from 0.", func(g group) int64 { return g.Index }),
		attribute.ReportedText("name", "Name of the group; empty for clusters of no named group.",
			func(g group) string { return g.Name }),
		attribute.ReportedTextList("clusters", "Names of the group's clusters, in the order that "+order+".",
			func(g group) []string { return g.Clusters }))
}

func readDecisions(ctx context.Context, a *crud.Asking, v values) {
	namespace, name := v.Text("namespace"), v.Text("placement")
	doing := fmt.Sprintf("read the decisions of placement %q", namespace+"/"+name)
	object, missing := &clusterv1beta1.Placement{}, false
	var made []clusterv1beta1.PlacementDecision
	err := a.Client.Wait(ctx, object, namespace, name, func(exists bool) (done bool, err error) {
		if missing = !exists; missing {
			return true, nil
		}
		if !enough(v, object) {
			return false, nil
		}
		// Decisions are written before the placement's status, so they are there.
		made, err = decisionsOf(ctx, a.Client, namespace, name)
		return err == nil, err
	})
	switch {
	case hub.IsTimeout(err):
		a.Diagnostics.AddError(fmt.Sprintf("Placement %q is not decided as asked for", namespace+"/"+name),
			fmt.Sprintf("After %s it has %d clusters. Conditions:\n%s\n\nNext:\n  kubectl describe placement -n %s %s",
				a.Timeout, object.Status.NumberOfSelectedClusters,
				hub.DescribeConditions(object.Status.Conditions, time.Now()), namespace, name))
	case a.Failed(doing, err):
	case missing:
		a.Diagnostics.AddError("Cannot "+doing, fmt.Sprintf("The hub %s has no placement %q in namespace %q. Refer "+
			"to a muster_placement resource, or correct the names.", a.Client.Host(), name, namespace))
	default:
		_, groups := decided(made)
		d := &decisions{placement: object}
		d.clusters, d.groups = narrow(v, groups)
		maps.Copy(v, decisionsTable().Read(d))
	}
}

// decisionsOf lists the decisions of a placement.
func decisionsOf(
	ctx context.Context, client *kube.Client, namespace, name string,
) ([]clusterv1beta1.PlacementDecision, error) {
	list := &clusterv1beta1.PlacementDecisionList{}
	of := kube.ListOptions{Namespace: namespace, LabelSelector: cluster.PlacementLabel + "=" + name}
	err := client.List(ctx, list, of)
	return list.Items, err
}

// enough reports whether the scheduler has answered as it was asked to.
func enough(asked values, object placement) bool {
	return decidedOn(object) && (satisfied(object) || !asked.Bool("wait")) &&
		int64(object.Status.NumberOfSelectedClusters) >= asked.Number("min_clusters")
}

func satisfied(object placement) bool {
	return meta.IsStatusConditionTrue(object.Status.Conditions, cluster.ConditionPlacementSatisfied)
}

// narrow leaves the groups that are asked for, and their clusters.
func narrow(asked values, groups []decidedGroup) (clusters []string, left []decidedGroup) {
	for _, group := range groups {
		named := !asked.IsSet("group_name") || asked.Text("group_name") == group.Name
		if named && (!asked.IsSet("group_index") || asked.Number("group_index") == group.Index) {
			left = append(left, group)
			clusters = append(clusters, group.Clusters...)
		}
	}
	return attribute.Sorted(clusters), left
}

// decided puts the decisions together: all clusters, sorted, and the groups in
// order, whose clusters are in the order of the decisions.
func decided(made []clusterv1beta1.PlacementDecision) (all []string, groups []decidedGroup) {
	made, all = slices.Clone(made), []string{}
	slices.SortStableFunc(made, func(a, b clusterv1beta1.PlacementDecision) int {
		return cmp.Compare(decisionNumber(a.Name), decisionNumber(b.Name))
	})
	byIndex := map[int64]*decidedGroup{}
	for _, decision := range made {
		index, _ := strconv.ParseInt(decision.Labels[cluster.DecisionGroupIndexLabel], 10, 64)
		if byIndex[index] == nil {
			byIndex[index] = &decidedGroup{Index: index, Name: decision.Labels[cluster.DecisionGroupNameLabel]}
		}
		for _, d := range decision.Status.Decisions {
			byIndex[index].Clusters = append(byIndex[index].Clusters, d.ClusterName)
			all = append(all, d.ClusterName)
		}
	}
	for _, index := range slices.Sorted(maps.Keys(byIndex)) {
		if len(byIndex[index].Clusters) > 0 {
			groups = append(groups, *byIndex[index])
		}
	}
	return attribute.Sorted(all), groups
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

// NewPreviewDataSource is the data source muster_placement_preview.
func NewPreviewDataSource() datasource.DataSource {
	return crud.Query{
		Type: "placement_preview",
		Description: "What a placement would select, before it exists, and why: the hub's scheduling library, run " +
			"on the present fleet. It changes nothing on the hub.\n\n" +
			"It takes the arguments of `muster_placement`. Other placements do not know a placement that does not " +
			"exist yet, so its clusters do not count for their score `Balance`.",
		Attributes: func() map[string]schema.Attribute {
			attributes := attribute.ObservedAttributes(previewTable().Attributes())
			maps.Copy(attributes, attribute.InputAttributes(selection().Attributes()))
			maps.Copy(attributes, attribute.InputAttributes(previewArguments()))
			return attributes
		},
		Takes: "reading the fleet", Timeout: time.Minute,
		Validate: checkPlacement,
		Read:     readPreview,
	}.NewDataSource()
}

// previewArguments are those beside the selection.
func previewArguments() map[string]resourceschema.Attribute {
	return map[string]resourceschema.Attribute{
		"namespace": attribute.Required("Namespace that the placement is in, or would be: the cluster sets that are "+
			"bound to it take part.", attribute.ValidName("namespace")),
		"name": attribute.Optional("Name of the placement. Where there is one of that name, the clusters that it "+
			"has now count as selected, as for the hub: they have an advantage by the score `Steady`, and tolerate "+
			"taints with the effect `NoSelectIfNew`. If no other argument of the selection is set here, that "+
			"placement's selection is used.", attribute.ValidName("placement name")),
		"explain": attribute.OptionalFlag("Whether to explain for every cluster why it is selected or not, in " +
			"`explanations`. Defaults to `true`; `false` keeps the state of a large fleet small."),
	}
}

// preview is what the data source shows.
type preview struct {
	hub.Preview
	exists, explained bool
}

func previewTable() attribute.Table[*preview] {
	type condition = metav1.Condition
	return attribute.Table[*preview]{
		attribute.ReportedFlag("exists", "Whether the hub has a placement of this `name`.",
			func(p *preview) bool { return p.exists }),
		attribute.ReportedTextList("clusters", "Names of the clusters that would be selected, in alphabetical order.",
			func(p *preview) []string { return p.Clusters }),
		attribute.ReportedTextList("added", "Clusters among them that the placement does not have now.",
			func(p *preview) []string { return p.Added }),
		attribute.ReportedTextList("dropped", "Clusters that the placement has now and would lose.",
			func(p *preview) []string { return p.Dropped }),
		groupsField("`sort_by` asks for", (*preview).groups),
		attribute.ReportedFlag("satisfied", "Whether as many clusters would be found as are asked for.",
			func(p *preview) bool { return p.Satisfied().Status == metav1.ConditionTrue }),
		attribute.ReportedObjects("conditions",
			"Conditions as the placement would have them, `PlacementMisconfigured` and `PlacementSatisfied`, which "+
				"explain what is missing.",
			func(p *preview) []condition { return p.Conditions },
			attribute.ReportedText("type", "Type of the condition.", func(c condition) string { return c.Type }),
			attribute.ReportedText("status", "`True` or `False`.",
				func(c condition) metav1.ConditionStatus { return c.Status }),
			attribute.ReportedText("reason", "Reason in one word.", func(c condition) string { return c.Reason }),
			attribute.ReportedText("message", "Reason in a sentence.", func(c condition) string { return c.Message })),
		attribute.ReportedObjects("explanations",
			"Every cluster of the sets that take part: first those that qualify, by rank, then the others, by name. "+
				"Null if `explain` is `false`.",
			func(p *preview) []explanation { return p.Explanations },
			explanationTable()...).
			Where(func(p *preview) bool { return p.explained }),
	}
}

// groups are the groups that have clusters.
func (p *preview) groups() (groups []decidedGroup) {
	for i, group := range p.Groups {
		if len(group.Clusters) > 0 {
			groups = append(groups, decidedGroup{Index: int64(i), Name: group.Name, Clusters: group.Clusters})
		}
	}
	return groups
}

type explanation = scheduling.Explanation

// explanationTable says why a cluster would be selected, or not.
func explanationTable() attribute.Table[explanation] {
	qualifies := func(e explanation) bool { return e.Rank > 0 }
	return attribute.Table[explanation]{
		attribute.ReportedText("cluster", "Name of the cluster.", func(e explanation) string { return e.Cluster }),
		attribute.ReportedFlag("selected", "Whether it would be selected.",
			func(e explanation) bool { return e.Selected }),
		attribute.ReportedNumber("rank", "Its rank among those that qualify, from 1; null if it does not.",
			func(e explanation) int { return e.Rank }).Where(qualifies),
		attribute.ReportedNumber("score", "Sum of its scores times their weights; null if it does not qualify.",
			func(e explanation) int64 { return e.Total }).Where(qualifies),
		attribute.ReportedText("reason", "Why it is selected, or not.",
			func(e explanation) string { return strings.Join(e.Reasons, "; ") }),
		attribute.Reported("scores",
			resourceschema.MapAttribute{
				MarkdownDescription: "The score from each prioritizer, from -100 to 100, before the weight: " +
					"`Balance`, `Steady` and so on; of an add-on's score `AddOn/<resource>/<score>`. Null if it " +
					"does not qualify.",
				Computed: true, ElementType: types.Int64Type,
			},
			func(e explanation) types.Map {
				scores := make(map[string]attr.Value, len(e.Scores))
				for _, s := range e.Scores {
					scores[s.Name] = types.Int64Value(s.Score)
				}
				return types.MapValueMust(types.Int64Type, scores)
			}).Where(qualifies),
	}
}

func readPreview(ctx context.Context, a *crud.Asking, v values) {
	p := &preview{explained: !v.IsSet("explain") || v.Bool("explain")}
	object := scheduled(v)
	if object.Name != "" {
		live := &clusterv1beta1.Placement{}
		err := a.Client.Get(ctx, live, object.Namespace, object.Name)
		p.exists = err == nil
		if !kube.IsNotFound(err, object.Name) && a.Failed(fmt.Sprintf("read placement %q", keyOf(v)), err) {
			return
		}
		if p.exists && !slices.ContainsFunc(selection().Names(), v.IsSet) {
			object.Spec = live.Spec
		}
	}
	snapshot, err := a.Hub.Fleet(ctx, a.Client)
	if !a.Failed("predict the selection of a placement in namespace "+object.Namespace, err) {
		p.Preview = snapshot.Preview(object, p.explained)
		maps.Copy(v, previewTable().Read(p))
	}
}
