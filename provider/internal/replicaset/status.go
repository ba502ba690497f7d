package replicaset

import (
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/manifestwork"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

// What the hub reports about a replica set. The values are the framework's, for
// they are unknown while planning.

type replicaSetStatusModel struct {
	Summary            types.Object `tfsdk:"summary"`
	PlacementSummaries types.List   `tfsdk:"placement_summaries"`
	Conditions         types.List   `tfsdk:"conditions"`
	RolledOut          types.Bool   `tfsdk:"rolled_out"`
}

func replicaSetStatusAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"summary": schema.SingleNestedAttribute{
			MarkdownDescription: "Counts the works of all placements by what their conditions say, as last read. One " +
				"work can count under several headings.",
			Computed:   true,
			Attributes: replicaSetSummaryAttributes(),
		},
		"placement_summaries": schema.ListNestedAttribute{
			MarkdownDescription: "Counts the works placement by placement, as last read.",
			Computed:            true,
			NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
				"name": attribute.TextAttribute("Name of the placement."),
				"available_decision_groups": attribute.TextAttribute("In words: how many decision groups the " +
					"placement has, and how many of its clusters have the work."),
				"summary": schema.SingleNestedAttribute{
					MarkdownDescription: "Counts the placement's works.",
					Computed:            true,
					Attributes:          replicaSetSummaryAttributes(),
				},
			}},
		},
		"conditions": schema.ListNestedAttribute{
			MarkdownDescription: "Conditions, as last read. `PlacementVerified`: the placements exist and select " +
				"clusters. `PlacementRolledOut`: the manifests have succeeded in every selected cluster. " +
				"`ManifestworkApplied`: all works are available and none is progressing or degraded.",
			Computed: true,
			NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
				"type":    attribute.TextAttribute("Type of the condition."),
				"status":  attribute.TextAttribute("`True`, `False` or `Unknown`."),
				"reason":  attribute.TextAttribute("Reason in one word."),
				"message": attribute.TextAttribute("Reason in a sentence."),
			}},
		},
		"rolled_out": schema.BoolAttribute{
			MarkdownDescription: "Whether the present manifests have succeeded in every cluster: " +
				"`PlacementRolledOut` is true of the present configuration, and the placements select clusters at all.",
			Computed: true,
		},
	}
}

func replicaSetSummaryAttributes() map[string]schema.Attribute {
	number := func(description string) schema.Int64Attribute {
		return schema.Int64Attribute{MarkdownDescription: description, Computed: true}
	}
	return map[string]schema.Attribute{
		"total":       number("Works that have the present manifests."),
		"applied":     number("Works whose objects the agent has written."),
		"available":   number("Works whose objects all exist."),
		"progressing": number("Works that are still on their way."),
		"degraded":    number("Works that are in trouble."),
	}
}

func replicaSetStatus(object *workv1alpha1.ManifestWorkReplicaSet, written *replicaSetMark, hide func(string) string) replicaSetStatusModel {
	placements := []attr.Value{}
	for _, p := range object.Status.PlacementsSummary {
		placements = append(placements, types.ObjectValueMust(placementSummaryType().AttrTypes, map[string]attr.Value{
			"name":                      types.StringValue(p.Name),
			"available_decision_groups": types.StringValue(p.AvailableDecisionGroups),
			"summary":                   replicaSetSummary(p.Summary),
		}))
	}
	return replicaSetStatusModel{
		Summary:            replicaSetSummary(object.Status.Summary),
		PlacementSummaries: types.ListValueMust(placementSummaryType(), placements),
		Conditions:         manifestwork.WorkConditionsValue(object.Status.Conditions, hide),
		RolledOut:          types.BoolValue(rolledOut(object, written)),
	}
}

func replicaSetSummary(s workv1alpha1.ManifestWorkReplicaSetSummary) types.Object {
	number := func(n int) types.Int64 { return types.Int64Value(int64(n)) }
	return types.ObjectValueMust(summaryType().AttrTypes, map[string]attr.Value{
		"total": number(s.Total), "applied": number(s.Applied), "available": number(s.Available),
		"progressing": number(s.Progressing), "degraded": number(s.Degraded),
	})
}

func summaryType() types.ObjectType {
	return types.ObjectType{AttrTypes: map[string]attr.Type{
		"total": types.Int64Type, "applied": types.Int64Type, "available": types.Int64Type,
		"progressing": types.Int64Type, "degraded": types.Int64Type,
	}}
}

func placementSummaryType() types.ObjectType {
	return types.ObjectType{AttrTypes: map[string]attr.Type{
		"name": types.StringType, "available_decision_groups": types.StringType, "summary": summaryType(),
	}}
}
