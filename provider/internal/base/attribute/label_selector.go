package attribute

import (
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

// LabelSelectorField is the field label_selector.
func LabelSelectorField[P any](description string, at func(P) *metav1.LabelSelector) Field[P] {
	return Object("label_selector", OptionalObject(description), at, SelectorFields()...)
}

// SelectorFields are those of a label selector.
func SelectorFields() []Field[*metav1.LabelSelector] {
	return []Field[*metav1.LabelSelector]{
		TextMap("match_labels",
			schema.MapAttribute{
				MarkdownDescription: "Labels that all have to match.",
				Optional:            true,
				Validators:          []validator.Map{ValidLabels(nil)},
			},
			func(s *metav1.LabelSelector) *map[string]string { return &s.MatchLabels }),
		MatchExpressions("Further conditions on labels; all of them have to match.",
			func(s *metav1.LabelSelector) *[]metav1.LabelSelectorRequirement { return &s.MatchExpressions }),
	}
}

// MatchExpressions is the field match_expressions, with conditions on labels or claims.
func MatchExpressions[P any](description string, at func(P) *[]metav1.LabelSelectorRequirement) Field[P] {
	type requirement = *metav1.LabelSelectorRequirement
	return Objects("match_expressions",
		schema.ListNestedAttribute{
			MarkdownDescription: description,
			Optional:            true,
			NestedObject: schema.NestedAttributeObject{Validators: []validator.Object{ValidObject(
				"operators In and NotIn with values, Exists and DoesNotExist without", checkRequirement)}},
		}, at,
		Text("key", Required("Key to look at.", ValidKey("selector key")), func(r requirement) *string { return &r.Key }),
		Text("operator",
			Required("`In`, `NotIn`, `Exists` or `DoesNotExist`. `NotIn` also matches when the key is missing.",
				stringvalidator.OneOf(string(metav1.LabelSelectorOpIn), string(metav1.LabelSelectorOpNotIn),
					string(metav1.LabelSelectorOpExists), string(metav1.LabelSelectorOpDoesNotExist))),
			func(r requirement) *metav1.LabelSelectorOperator { return &r.Operator }),
		TextSet("values", schema.SetAttribute{MarkdownDescription: "Values for `In` and `NotIn`.", Optional: true},
			func(r requirement) *[]string { return &r.Values }))
}

// checkRequirement refuses an operator and values that do not go together.
func checkRequirement(at path.Path, requirement Values, diags *diag.Diagnostics) {
	values, _ := requirement["values"].(types.Set)
	if values.IsUnknown() {
		return
	}
	operator, count := requirement.Text("operator"), len(values.Elements())
	switch metav1.LabelSelectorOperator(operator) {
	case metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn:
		if count == 0 {
			diags.AddAttributeError(at.AtName("values"), "Missing values",
				fmt.Sprintf("%s: the operator %s needs values, and there are none. Add values, or use Exists or "+
					"DoesNotExist.", Place(at), operator))
		}
	case metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist:
		if count > 0 {
			diags.AddAttributeError(at.AtName("values"), "Needless values",
				fmt.Sprintf("%s: the operator %s takes no values. Remove them, or use In or NotIn.",
					Place(at), operator))
		}
	}
}

// ClusterSelectorFields select clusters by their labels, claims and by expressions.
func ClusterSelectorFields[P any](at func(P) *clusterv1beta1.ClusterSelector) []Field[P] {
	return []Field[P]{
		ClusterLabelsField(func(p P) *metav1.LabelSelector { return &at(p).LabelSelector }),
		ClusterClaimsField(func(p P) *clusterv1beta1.ClusterClaimSelector { return &at(p).ClaimSelector }),
		TextList("cel_expressions",
			schema.ListAttribute{
				MarkdownDescription: "Expressions in the Common Expression Language over the variable " +
					"`managedCluster`, such as `managedCluster.status.version.kubernetes == \"v1.33.1\"`, that all " +
					"have to be true.",
				Optional:   true,
				Validators: []validator.List{listvalidator.ValueStringsAre(NotEmpty())},
			},
			func(p P) *[]string { return &at(p).CELSelector.CELExpressions }),
	}
}

// ClusterLabelsField selects clusters by their labels.
func ClusterLabelsField[P any](at func(P) *metav1.LabelSelector) Field[P] {
	return LabelSelectorField("Selects by the labels of the managed cluster.", at)
}

// ClusterClaimsField selects clusters by their claims.
func ClusterClaimsField[P any](at func(P) *clusterv1beta1.ClusterClaimSelector) Field[P] {
	return Object("claim_selector",
		schema.SingleNestedAttribute{
			MarkdownDescription: "Selects by the cluster's claims, as if they were labels.", Optional: true,
		}, at,
		MatchExpressions("Conditions on claims; all of them have to match.",
			func(c *clusterv1beta1.ClusterClaimSelector) *[]metav1.LabelSelectorRequirement {
				return &c.MatchExpressions
			}))
}
