package placement

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	resourceschema "github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

// NewPreviewDataSource is the data source muster_placement_preview.
func NewPreviewDataSource() datasource.DataSource {
	return crud.Query{
		Type: "placement_preview",
		Description: "What a placement would select, before it exists, and why: the hub's scheduling library, run on the " +
			"present fleet. It changes nothing on the hub.\n\n" +
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
		"namespace": attribute.Required("Namespace that the placement is in, or would be: the cluster sets that are bound "+
			"to it take part.", attribute.ValidName("namespace")),
		"name": attribute.Optional("Name of the placement. Where there is one of that name, the clusters that it has now "+
			"count as selected, as for the hub: they have an advantage by the score `Steady`, and tolerate taints with "+
			"the effect `NoSelectIfNew`. If no other argument of the selection is set here, that placement's "+
			"selection is used.", attribute.ValidName("placement name")),
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
			attribute.ReportedText("status", "`True` or `False`.", func(c condition) metav1.ConditionStatus { return c.Status }),
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
		attribute.ReportedFlag("selected", "Whether it would be selected.", func(e explanation) bool { return e.Selected }),
		attribute.ReportedNumber("rank", "Its rank among those that qualify, from 1; null if it does not.",
			func(e explanation) int { return e.Rank }).Where(qualifies),
		attribute.ReportedNumber("score", "Sum of its scores times their weights; null if it does not qualify.",
			func(e explanation) int64 { return e.Total }).Where(qualifies),
		attribute.ReportedText("reason", "Why it is selected, or not.",
			func(e explanation) string { return strings.Join(e.Reasons, "; ") }),
		attribute.Reported("scores",
			resourceschema.MapAttribute{
				MarkdownDescription: "The score from each prioritizer, from -100 to 100, before the weight: `Balance`, " +
					"`Steady` and so on; of an add-on's score `AddOn/<resource>/<score>`. Null if it does not qualify.",
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
