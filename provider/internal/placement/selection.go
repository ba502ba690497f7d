package placement

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

// Which clusters qualify: predicates and tolerations.

type predicateModel struct {
	LabelSelector  *attribute.LabelSelectorModel `tfsdk:"label_selector"`
	ClaimSelector  *claimSelectorModel           `tfsdk:"claim_selector"`
	CELExpressions []types.String                `tfsdk:"cel_expressions"`
}

type claimSelectorModel struct {
	MatchExpressions []attribute.RequirementModel `tfsdk:"match_expressions"`
}

type tolerationModel struct {
	Key      types.String `tfsdk:"key"`
	Operator types.String `tfsdk:"operator"`
	Value    types.String `tfsdk:"value"`
	Effect   types.String `tfsdk:"effect"`
	Seconds  types.Int64  `tfsdk:"toleration_seconds"`
}

func predicatesAttribute() schema.ListNestedAttribute {
	return schema.ListNestedAttribute{
		MarkdownDescription: "Alternatives by which a cluster can qualify: one matching entry is enough. Within an entry everything has to match. If omitted, every cluster qualifies.",
		Optional:            true,
		Validators:          []validator.List{listvalidator.SizeAtLeast(1)},
		NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
			"label_selector": attribute.LabelSelectorAttribute("Selects by the labels of the managed cluster."),
			"claim_selector": claimSelectorAttribute(),
			"cel_expressions": schema.ListAttribute{
				MarkdownDescription: "Expressions in the Common Expression Language over the variable `managedCluster`, such as `managedCluster.status.version.kubernetes == \"v1.33.1\"`, that all have to be true.",
				Optional:            true,
				ElementType:         types.StringType,
				Validators:          []validator.List{listvalidator.ValueStringsAre(attribute.NotEmpty())},
			},
		}},
	}
}

func claimSelectorAttribute() schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{
		MarkdownDescription: "Selects by the cluster's claims, as if they were labels.",
		Optional:            true,
		Attributes: map[string]schema.Attribute{
			"match_expressions": attribute.MatchExpressionsAttribute("Conditions on claims; all of them have to match."),
		},
	}
}

func tolerationsAttribute() schema.ListNestedAttribute {
	return schema.ListNestedAttribute{
		MarkdownDescription: "Taints to tolerate. A cluster qualifies when each of its taints is tolerated.",
		Optional:            true,
		Validators:          []validator.List{tolerationsValidator{"a key, or the operator Exists; a value only with Equal"}},
		NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
			"key": schema.StringAttribute{
				MarkdownDescription: "Key of the taint. If omitted, with the operator `Exists`, all taints match.",
				Optional:            true,
				Validators:          []validator.String{attribute.ValidKey("taint key")},
			},
			"operator": schema.StringAttribute{
				MarkdownDescription: "`Equal`: the taint has to have this `value`. `Exists`: any value will do. Defaults to `Equal`.",
				Optional:            true, Computed: true, Default: stringdefault.StaticString(string(clusterv1beta1.TolerationOpEqual)),
				Validators: []validator.String{stringvalidator.OneOf(string(clusterv1beta1.TolerationOpEqual), string(clusterv1beta1.TolerationOpExists))},
			},
			"value": schema.StringAttribute{
				MarkdownDescription: "Value of the taint, with the operator `Equal`.",
				Optional:            true,
				Validators:          []validator.String{stringvalidator.LengthBetween(1, 1024)},
			},
			"effect": schema.StringAttribute{
				MarkdownDescription: "Effect of the taint: `NoSelect`, `NoSelectIfNew` or `PreferNoSelect`. If omitted, any.",
				Optional:            true,
				Validators: []validator.String{stringvalidator.OneOf(
					string(clusterv1.TaintEffectNoSelect), string(clusterv1.TaintEffectNoSelectIfNew), string(clusterv1.TaintEffectPreferNoSelect))},
			},
			"toleration_seconds": schema.Int64Attribute{
				MarkdownDescription: "How long to tolerate the taint, in seconds from when it was set. If omitted, forever; with `0`, not at all.",
				Optional:            true,
			},
		}},
	}
}

// tolerationsValidator checks what the scheduler would otherwise call a
// misconfiguration, after emptying the decisions.
type tolerationsValidator struct{ attribute.Described }

func (tolerationsValidator) ValidateList(_ context.Context, req validator.ListRequest, resp *validator.ListResponse) {
	for i, element := range req.ConfigValue.Elements() {
		object, ok := element.(types.Object)
		if !ok || object.IsUnknown() {
			continue
		}
		key, _ := object.Attributes()["key"].(types.String)
		operator, _ := object.Attributes()["operator"].(types.String)
		value, _ := object.Attributes()["value"].(types.String)
		if key.IsUnknown() || operator.IsUnknown() {
			continue
		}
		exists := operator.ValueString() == string(clusterv1beta1.TolerationOpExists)
		at := req.Path.AtListIndex(i)
		if key.IsNull() && !exists {
			resp.Diagnostics.AddAttributeError(at, "Toleration without a key",
				fmt.Sprintf(`%s has no key. A toleration without a key tolerates every taint and has to say so: set operator = "Exists", or name a key.`, attribute.Place(at)))
		}
		if exists && !value.IsNull() && !value.IsUnknown() {
			resp.Diagnostics.AddAttributeError(at.AtName("value"), "Needless value",
				fmt.Sprintf("The operator Exists tolerates any value, so value = %q has no place. Remove it, or use the operator Equal.", value.ValueString()))
		}
	}
}

func predicates(models []predicateModel) []clusterv1beta1.ClusterPredicate {
	var list []clusterv1beta1.ClusterPredicate
	for _, m := range models {
		var p clusterv1beta1.ClusterPredicate
		p.RequiredClusterSelector.LabelSelector = m.LabelSelector.Selector()
		p.RequiredClusterSelector.ClaimSelector = m.ClaimSelector.Selector()
		for _, expression := range m.CELExpressions {
			p.RequiredClusterSelector.CELSelector.CELExpressions = append(p.RequiredClusterSelector.CELSelector.CELExpressions, expression.ValueString())
		}
		list = append(list, p)
	}
	return list
}

// predicateModels is nil when there are none.
func predicateModels(list []clusterv1beta1.ClusterPredicate) []predicateModel {
	var models []predicateModel
	for _, p := range list {
		var m predicateModel
		selector := p.RequiredClusterSelector
		if len(selector.LabelSelector.MatchLabels) > 0 || len(selector.LabelSelector.MatchExpressions) > 0 {
			m.LabelSelector = attribute.LabelSelectorModelOf(&selector.LabelSelector)
		}
		m.ClaimSelector = claimSelectorModelOf(selector.ClaimSelector)
		for _, expression := range selector.CELSelector.CELExpressions {
			m.CELExpressions = append(m.CELExpressions, types.StringValue(expression))
		}
		models = append(models, m)
	}
	return models
}

func (m *claimSelectorModel) Selector() clusterv1beta1.ClusterClaimSelector {
	if m == nil {
		return clusterv1beta1.ClusterClaimSelector{}
	}
	return clusterv1beta1.ClusterClaimSelector{MatchExpressions: attribute.Requirements(m.MatchExpressions)}
}

// claimSelectorModelOf is nil when nothing is selected by claims.
func claimSelectorModelOf(selector clusterv1beta1.ClusterClaimSelector) *claimSelectorModel {
	if len(selector.MatchExpressions) == 0 {
		return nil
	}
	return &claimSelectorModel{MatchExpressions: attribute.RequirementModels(selector.MatchExpressions)}
}

func tolerations(models []tolerationModel) []clusterv1beta1.Toleration {
	var list []clusterv1beta1.Toleration
	for _, m := range models {
		list = append(list, clusterv1beta1.Toleration{
			Key:               m.Key.ValueString(),
			Operator:          clusterv1beta1.TolerationOperator(m.Operator.ValueString()),
			Value:             m.Value.ValueString(),
			Effect:            clusterv1.TaintEffect(m.Effect.ValueString()),
			TolerationSeconds: m.Seconds.ValueInt64Pointer(),
		})
	}
	return list
}

// tolerationModels is nil when there are none.
func tolerationModels(list []clusterv1beta1.Toleration) []tolerationModel {
	var models []tolerationModel
	for _, t := range list {
		models = append(models, tolerationModel{
			Key:      attribute.OptionalString(t.Key),
			Operator: attribute.OptionalString(string(t.Operator)),
			Value:    attribute.OptionalString(t.Value),
			Effect:   attribute.OptionalString(string(t.Effect)),
			Seconds:  types.Int64PointerValue(t.TolerationSeconds),
		})
	}
	return models
}
