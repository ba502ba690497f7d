package placement

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/muster-fleet/terraform-provider-muster/internal/expression"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

// What the scheduler would call a misconfiguration, after emptying the decisions,
// is refused while planning.

// checkPlacement finds what is wrong with selectors and expressions, as far as
// they are known.
func checkPlacement(ctx context.Context, config tfsdk.Config, diags *diag.Diagnostics) {
	var all types.Object
	if diags.Append(config.Get(ctx, &all)...); diags.HasError() {
		return
	}
	object := &clusterv1beta1.Placement{}
	selection().Write(all.Attributes(), object)
	expressions := scheduling.NewExpressions()
	for i, p := range object.Spec.Predicates {
		at, of := path.Root("predicates").AtListIndex(i), p.RequiredClusterSelector
		checkValues(at.AtName("label_selector"), of.LabelSelector.MatchExpressions, diags)
		checkValues(at.AtName("claim_selector"), of.ClaimSelector.MatchExpressions, diags)
		for j, text := range of.CELSelector.CELExpressions {
			checkExpression(at.AtName("cel_expressions").AtListIndex(j), text, expressions, diags)
		}
	}
	for i, g := range object.Spec.DecisionStrategy.GroupStrategy.DecisionGroups {
		at, of := path.Root("decision_strategy").AtName("decision_groups").AtListIndex(i), g.GroupClusterSelector
		checkValues(at.AtName("label_selector"), of.LabelSelector.MatchExpressions, diags)
		checkValues(at.AtName("claim_selector"), of.ClaimSelector.MatchExpressions, diags)
	}
	if !diags.HasError() {
		checkSize(object, expressions, diags)
	}
}

// checkSize refuses what the hub refuses for its length, as far as it is known.
func checkSize(object placement, expressions *scheduling.Expressions, diags *diag.Diagnostics) {
	err := scheduling.CheckSize(&object.Spec, expressions)
	if err == nil {
		return
	}
	const summary = "Longer than a hub accepts"
	detail := attribute.Capitalize(err.Error()) + "."
	place := strings.ToLower(err.Error())
	for _, name := range selection().Names() {
		one := strings.Contains(place, "spec."+strings.ReplaceAll(name, "_", ""))
		if one && !strings.Contains(place, "the selectors of") {
			diags.AddAttributeError(path.Root(name), summary, detail)
			return
		}
	}
	diags.AddError(summary, detail)
}

// checkValues checks the values in a selector. The scheduler reads claims as labels, so
// that their values are bound to the form of those.
func checkValues(at path.Path, requirements []metav1.LabelSelectorRequirement, diags *diag.Diagnostics) {
	for i, requirement := range requirements {
		at := at.AtName("match_expressions").AtListIndex(i).AtName("values")
		for _, value := range requirement.Values {
			if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
				diags.AddAttributeError(at, "Invalid selector value",
					fmt.Sprintf("%s: %q can't be selected by: %s. Labels and claims are compared as labels. Where a "+
						"claim has such values, use cel_expressions, with managedCluster.status.clusterClaims.",
						at, value, strings.Join(problems, "; ")))
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
	object := &clusterv1beta1.Placement{}
	object.Spec.Predicates = []clusterv1beta1.ClusterPredicate{predicate}
	refuse := func(format string, args ...any) {
		diags.AddAttributeError(at, "Invalid expression",
			fmt.Sprintf("%s, %q, %s", at, expression.Excerpt(text), fmt.Sprintf(format, args...)))
	}
	for _, problem := range scheduling.Compile(object, scheduling.Options{Expressions: expressions}).Problems() {
		refuse("can't be evaluated on any cluster: %s\n\nIt has to be an expression in CEL over the variable "+
			"managedCluster, such as managedCluster.metadata.labels[\"env\"] == \"prod\".", problem.Message)
	}
	if problem := expressionProblem(text); problem != "" {
		refuse("selects no cluster: %s", problem)
	}
}
