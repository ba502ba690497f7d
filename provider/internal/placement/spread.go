package placement

import (
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

// How the selected clusters are spread over regions, providers and the like.

type spreadPolicyModel struct {
	Constraints []spreadConstraintModel `tfsdk:"spread_constraints"`
}

type spreadConstraintModel struct {
	Key           types.String `tfsdk:"topology_key"`
	KeyType       types.String `tfsdk:"topology_key_type"`
	MaxSkew       types.Int64  `tfsdk:"max_skew"`
	Unsatisfiable types.String `tfsdk:"when_unsatisfiable"`
}

// maxSpreadConstraints is how many constraints the API takes.
const maxSpreadConstraints = 8

func spreadPolicyAttribute() schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{
		MarkdownDescription: "Spreads the selected clusters over the values of labels or claims, where `number_of_clusters` leaves a choice. " +
			"muster's hub does so; upstream's scheduler (as of 2025) accepts the field and ignores it.",
		Optional: true,
		Attributes: map[string]schema.Attribute{
			"spread_constraints": schema.ListNestedAttribute{
				MarkdownDescription: "What to spread over, the most important first; at most 8.",
				Required:            true,
				Validators:          []validator.List{listvalidator.SizeBetween(1, maxSpreadConstraints)},
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"topology_key": schema.StringAttribute{
						MarkdownDescription: "Label or claim by whose values the clusters are divided, such as `region`.",
						Required:            true,
						Validators:          []validator.String{attribute.ValidKey("topology key")},
					},
					"topology_key_type": schema.StringAttribute{
						MarkdownDescription: "`Label` or `Claim`.",
						Required:            true,
						Validators:          []validator.String{stringvalidator.OneOf(string(clusterv1beta1.TopologyKeyTypeLabel), string(clusterv1beta1.TopologyKeyTypeClaim))},
					},
					"max_skew": schema.Int64Attribute{
						MarkdownDescription: "The greatest difference between the numbers of clusters of any two values, at least 1. Defaults to `1`.",
						Optional:            true, Computed: true, Default: int64default.StaticInt64(1),
						Validators: []validator.Int64{int64validator.Between(1, 1<<31-1)},
					},
					"when_unsatisfiable": schema.StringAttribute{
						MarkdownDescription: "What to do when `max_skew` can't be kept: leave clusters out (`DoNotSchedule`) or select them anyway (`ScheduleAnyway`). Defaults to `ScheduleAnyway`.",
						Optional:            true, Computed: true, Default: stringdefault.StaticString(string(clusterv1beta1.ScheduleAnyway)),
						Validators: []validator.String{stringvalidator.OneOf(string(clusterv1beta1.DoNotSchedule), string(clusterv1beta1.ScheduleAnyway))},
					},
				}},
			},
		},
	}
}

func (m *spreadPolicyModel) policy() clusterv1beta1.SpreadPolicy {
	var policy clusterv1beta1.SpreadPolicy
	if m == nil {
		return policy
	}
	for _, c := range m.Constraints {
		policy.SpreadConstraints = append(policy.SpreadConstraints, clusterv1beta1.SpreadConstraintsTerm{
			TopologyKey:       c.Key.ValueString(),
			TopologyKeyType:   clusterv1beta1.TopologyKeyType(c.KeyType.ValueString()),
			MaxSkew:           max(1, int32(c.MaxSkew.ValueInt64())), //nolint:gosec // validated
			WhenUnsatisfiable: clusterv1beta1.UnsatisfiableMaxSkewAction(attribute.OrDefault(c.Unsatisfiable, string(clusterv1beta1.ScheduleAnyway))),
		})
	}
	return policy
}

func spreadPolicyModelOf(policy clusterv1beta1.SpreadPolicy) *spreadPolicyModel {
	m := &spreadPolicyModel{}
	for _, c := range policy.SpreadConstraints {
		m.Constraints = append(m.Constraints, spreadConstraintModel{
			Key:           types.StringValue(c.TopologyKey),
			KeyType:       types.StringValue(string(c.TopologyKeyType)),
			MaxSkew:       types.Int64Value(int64(c.MaxSkew)),
			Unsatisfiable: types.StringValue(string(c.WhenUnsatisfiable)),
		})
	}
	return m
}
