package placement

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/muster-fleet/terraform-provider-muster/internal/expression"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

// What the scheduler would call a misconfiguration, after emptying the decisions,
// is refused while planning.

// attributeGetter is a configuration.
type attributeGetter interface {
	GetAttribute(ctx context.Context, path path.Path, target any) diag.Diagnostics
}

// checkPlacement finds what is wrong with selectors and expressions, as far as
// they are known.
func checkPlacement(ctx context.Context, config attributeGetter) diag.Diagnostics {
	var diags diag.Diagnostics
	var predicates types.List
	var strategy types.Object
	diags.Append(config.GetAttribute(ctx, path.Root("predicates"), &predicates)...)
	diags.Append(config.GetAttribute(ctx, path.Root("decision_strategy"), &strategy)...)
	if diags.HasError() {
		return diags
	}
	expressions := scheduling.NewExpressions()
	for i, element := range predicates.Elements() {
		at := path.Root("predicates").AtListIndex(i)
		predicate, ok := element.(types.Object)
		if !ok {
			continue
		}
		checkNotEmpty(at, predicate, &diags)
		checkSelectors(at, predicate, &diags)
		if list, ok := predicate.Attributes()["cel_expressions"].(types.List); ok {
			for j, element := range list.Elements() {
				if text, ok := element.(types.String); ok && !text.IsNull() && !text.IsUnknown() {
					checkExpression(at.AtName("cel_expressions").AtListIndex(j), text.ValueString(), expressions, &diags)
				}
			}
		}
	}
	if groups, ok := strategy.Attributes()["decision_groups"].(types.List); ok {
		for i, element := range groups.Elements() {
			if group, ok := element.(types.Object); ok {
				checkSelectors(path.Root("decision_strategy").AtName("decision_groups").AtListIndex(i), group, &diags)
			}
		}
	}
	if !diags.HasError() {
		checkSize(ctx, config, expressions, &diags)
	}
	return diags
}

// checkNotEmpty refuses a predicate that sets nothing. It would select every cluster,
// and is what remains of one whose attribute is misspelled: Terraform drops attributes
// of nested objects that the schema does not have.
func checkNotEmpty(at path.Path, predicate types.Object, diags *diag.Diagnostics) {
	var names []string
	for name, value := range predicate.Attributes() {
		names = append(names, name)
		if !value.IsNull() {
			return
		}
	}
	if predicate.IsNull() || predicate.IsUnknown() {
		return
	}
	slices.Sort(names)
	diags.AddAttributeError(at, "Empty predicate", fmt.Sprintf("%s sets none of %s, so it would select every cluster. "+
		"Terraform leaves out attributes that it does not know: check their spelling. To select every cluster, leave the predicate out.",
		at, strings.Join(names, ", ")))
}

// checkSize refuses what the hub refuses for its length, as far as it is known.
func checkSize(ctx context.Context, config attributeGetter, expressions *scheduling.Expressions, diags *diag.Diagnostics) {
	var model placementSpecModel
	for _, field := range specFields() {
		_ = config.GetAttribute(ctx, path.Root(field.name), field.target(&model)) // An error is that of unknown values.
	}
	spec := model.spec()
	err := scheduling.CheckSize(&spec, expressions)
	if err == nil {
		return
	}
	detail := attribute.Capitalize(err.Error()) + "."
	for field, name := range map[string]string{
		"spec.predicates": "predicates", "spec.decisionStrategy": "decision_strategy", "spec.tolerations": "tolerations",
		"spec.prioritizerPolicy": "prioritizer_policy", "spec.spreadPolicy": "spread_policy",
	} {
		if strings.Contains(err.Error(), field) && !strings.Contains(err.Error(), "the selectors of") {
			diags.AddAttributeError(path.Root(name), "Longer than a hub accepts", detail)
			return
		}
	}
	diags.AddError("Longer than a hub accepts", detail)
}

// checkSelectors checks the values in the selectors of a predicate or group. The
// scheduler reads claims as labels, so that their values are bound to the form of
// those.
func checkSelectors(at path.Path, of types.Object, diags *diag.Diagnostics) {
	for _, name := range []string{"label_selector", "claim_selector"} {
		selector, ok := of.Attributes()[name].(types.Object)
		if !ok {
			continue
		}
		expressions, ok := selector.Attributes()["match_expressions"].(types.List)
		if !ok {
			continue
		}
		for i, element := range expressions.Elements() {
			expression, ok := element.(types.Object)
			if !ok {
				continue
			}
			values, ok := expression.Attributes()["values"].(types.Set)
			if !ok {
				continue
			}
			for _, value := range values.Elements() {
				text, ok := value.(types.String)
				if !ok || text.IsUnknown() {
					continue
				}
				if problems := validation.IsValidLabelValue(text.ValueString()); len(problems) > 0 {
					values := at.AtName(name).AtName("match_expressions").AtListIndex(i).AtName("values")
					diags.AddAttributeError(values, "Invalid selector value",
						fmt.Sprintf("%s: %q can't be selected by: %s. Labels and claims are compared as labels. Where a claim has such values, use cel_expressions, with managedCluster.status.clusterClaims.", values, text.ValueString(), strings.Join(problems, "; ")))
				}
			}
		}
	}
}

// checkExpression compiles an expression as the scheduler does.
func checkExpression(at path.Path, text string, expressions *scheduling.Expressions, diags *diag.Diagnostics) {
	if text == "" {
		return // Has been refused already.
	}
	var predicate clusterv1beta1.ClusterPredicate
	predicate.RequiredClusterSelector.CELSelector.CELExpressions = []string{text}
	compiled := scheduling.Compile(&clusterv1beta1.Placement{Spec: clusterv1beta1.PlacementSpec{Predicates: []clusterv1beta1.ClusterPredicate{predicate}}},
		scheduling.Options{Expressions: expressions})
	for _, problem := range compiled.Problems() {
		diags.AddAttributeError(at, "Invalid expression",
			fmt.Sprintf("%s, %q, can't be evaluated on any cluster: %s\n\nIt has to be an expression in CEL over the variable managedCluster, such as managedCluster.metadata.labels[\"env\"] == \"prod\".",
				at, expression.Excerpt(text), problem.Message))
	}
	if problem := expressionProblem(text); problem != "" {
		diags.AddAttributeError(at, "Invalid expression", fmt.Sprintf("%s, %q, selects no cluster: %s", at, expression.Excerpt(text), problem))
	}
}
