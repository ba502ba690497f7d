package logicalcloud

import (
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// What the hub reports about a cloud. The values are the framework's, for they are
// unknown while planning.

type statusModel struct {
	Clusters types.Object `tfsdk:"clusters"`
	Problems types.List   `tfsdk:"problems"`
}

func statusAttributes() map[string]schema.Attribute {
	number := func(description string) schema.Int64Attribute {
		return schema.Int64Attribute{MarkdownDescription: description, Computed: true}
	}
	return map[string]schema.Attribute{
		"clusters": schema.SingleNestedAttribute{
			MarkdownDescription: "How many clusters the cloud has, as last read.",
			Computed:            true,
			Attributes: map[string]schema.Attribute{
				"selected": number("Clusters that the placements select."),
				"ready":    number("Those of them that have all of the cloud's objects."),
				"failed":   number("Those of them that can't have them."),
			},
		},
		"problems": schema.ListNestedAttribute{
			MarkdownDescription: "Up to 10 clusters that are not ready, as last read, with the reason.",
			Computed:            true,
			NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
				"managed_cluster": attribute.TextAttribute("Name of the cluster."),
				"reason":          attribute.TextAttribute("Reason in one word, such as `NamespaceExists`."),
				"message":         attribute.TextAttribute("Reason in a sentence, and what to do."),
			}},
		},
	}
}

func countsType() types.ObjectType {
	return types.ObjectType{AttrTypes: map[string]attr.Type{"selected": types.Int64Type, "ready": types.Int64Type, "failed": types.Int64Type}}
}

func problemType() types.ObjectType {
	return types.ObjectType{AttrTypes: map[string]attr.Type{"managed_cluster": types.StringType, "reason": types.StringType, "message": types.StringType}}
}

// report takes over what the hub reports.
func (m *statusModel) report(object *v1alpha1.LogicalCloud) {
	counts := object.Status.Clusters
	m.Clusters = types.ObjectValueMust(countsType().AttrTypes, map[string]attr.Value{
		"selected": types.Int64Value(int64(counts.Selected)), "ready": types.Int64Value(int64(counts.Ready)), "failed": types.Int64Value(int64(counts.Failed)),
	})
	problems := []attr.Value{}
	for _, f := range counts.Failing {
		problems = append(problems, types.ObjectValueMust(problemType().AttrTypes, map[string]attr.Value{
			"managed_cluster": types.StringValue(f.Name), "reason": types.StringValue(f.Reason), "message": types.StringValue(f.Message),
		}))
	}
	m.Problems = types.ListValueMust(problemType(), problems)
}

// reportPlanned is report for what the plan has left open. What it has shown stays.
func (m *statusModel) reportPlanned(object *v1alpha1.LogicalCloud) {
	if m.Clusters.IsUnknown() {
		m.report(object)
	}
}
