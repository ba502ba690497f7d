package placement

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/parser"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/muster-fleet/terraform-provider-muster/internal/expression"
	"github.com/muster-fleet/terraform-provider-muster/internal/suggest"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
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

// clusterVariable is the name of the cluster in expressions.
const clusterVariable = "managedCluster"

// expressionProblem says why an expression can't select any cluster; empty for one that
// can, and for one that can't be parsed. The scheduler would not tell: an expression that
// fails on a cluster, or whose value is no truth value, does not select it.
func expressionProblem(text string) string {
	p, err := parser.NewParser(parser.Macros(parser.AllMacros...), parser.EnableOptionalSyntax(true))
	if err != nil {
		return ""
	}
	parsed, problems := p.Parse(common.NewTextSource(text))
	if len(problems.GetErrors()) > 0 {
		return ""
	}
	fields, hidden := fieldsRead(parsed.Expr())
	if hidden {
		return ""
	}
	for _, names := range fields {
		if problem := missingField(names); problem != "" {
			return problem
		}
	}
	kind, with := kindOf(parsed.Expr()), " == …"
	switch kind {
	case "bool", dynamic:
		return ""
	case "string":
		with = ` == "…"`
	}
	return fmt.Sprintf("its value is always of the type %s, and only true selects a cluster: compare it with "+
		"something, as in %s%s", kind, text, with)
}

// fieldsRead are the fields that an expression reads of the cluster, each as the names on
// the way to it, without those that has() asks about. They are hidden where a loop has a
// variable of the same name.
func fieldsRead(e ast.Expr) (fields [][]string, hidden bool) {
	var asked [][]string
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.ComprehensionKind {
			loop := e.AsComprehension()
			hidden = hidden || loop.IterVar() == clusterVariable || loop.IterVar2() == clusterVariable
		}
		switch names := fieldsFrom(e); {
		case len(names) == 0:
		case isTest(e):
			asked = append(asked, names)
		default:
			fields = append(fields, names)
		}
	}))
	return slices.DeleteFunc(fields, func(names []string) bool {
		return slices.ContainsFunc(asked, func(a []string) bool {
			return len(names) >= len(a) && slices.Equal(names[:len(a)], a)
		})
	}), hidden
}

// missingField says which field of a path a managed cluster does not have; empty
// where it has them all.
func missingField(names []string) string {
	for i, name := range names {
		if clusterField(names[:i+1]) != nil {
			continue
		}
		owner := strings.Join(append([]string{clusterVariable}, names[:i]...), ".")
		known := slices.Sorted(maps.Keys(kube.JSONFields(clusterField(names[:i]))))
		hint := "it has " + strings.Join(known, ", ")
		if near := suggest.Name(name, known); near != "" {
			hint = fmt.Sprintf("did you mean %s?", near)
		}
		return fmt.Sprintf("%s has no field %s: %s (A field of a later version of the API can be read behind "+
			"has(%[1]s.%[2]s).)", owner, name, hint)
	}
	return ""
}

// anything is the type of what has no fields of its own to check: the keys of
// maps, and what is not a struct.
var anything = reflect.TypeFor[any]()

// clusterField is the type of a field of a managed cluster; nil when there is none.
func clusterField(names []string) reflect.Type {
	at := reflect.TypeFor[clusterv1.ManagedCluster]()
	for _, name := range names {
		switch {
		case at.Kind() == reflect.Map:
			at = at.Elem()
		case at.Kind() != reflect.Struct || isText(at):
			return anything
		default:
			if at = kube.JSONFields(at)[name]; at == nil {
				return nil
			}
		}
		if at.Kind() == reflect.Pointer {
			at = at.Elem()
		}
	}
	return at
}

// isText reports whether a struct is not an object in JSON, such as a time.
func isText(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]())
}

// typeName is a type in CEL's words; dyn for what only an evaluation tells.
func typeName(t reflect.Type) string {
	switch {
	case t == anything || t == reflect.TypeFor[runtime.RawExtension]():
		return dynamic
	case t.Kind() == reflect.Bool:
		return "bool"
	case t.Kind() == reflect.String || isText(t) || t == reflect.TypeFor[[]byte]():
		return "string"
	case t.Kind() == reflect.Slice:
		return "list"
	case t.Kind() == reflect.Map, t.Kind() == reflect.Struct:
		return "map"
	}
	return "int"
}

// isTest reports whether an expression is has(…).
func isTest(e ast.Expr) bool { return e.Kind() == ast.SelectKind && e.AsSelect().IsTestOnly() }

// fieldsFrom are the names by which an expression goes from the cluster to a field,
// with points or indices; nil for another expression.
func fieldsFrom(e ast.Expr) []string {
	var names []string
	for {
		switch e.Kind() {
		case ast.IdentKind:
			if e.AsIdent() != clusterVariable {
				return nil
			}
			slices.Reverse(names)
			return names
		case ast.SelectKind:
			names = append(names, e.AsSelect().FieldName())
			e = e.AsSelect().Operand()
		case ast.CallKind:
			call := e.AsCall()
			if call.FunctionName() != operators.Index || call.Args()[1].Kind() != ast.LiteralKind {
				return nil
			}
			name, ok := call.Args()[1].AsLiteral().Value().(string)
			if !ok {
				return nil
			}
			names = append(names, name)
			e = call.Args()[0]
		default:
			return nil
		}
	}
}

// dynamic is the type of what only an evaluation tells.
const dynamic = "dyn"

// kindOf is the type of an expression's value, where its form tells.
func kindOf(e ast.Expr) string {
	if names := fieldsFrom(e); len(names) > 0 && !isTest(e) && clusterField(names) != nil {
		return typeName(clusterField(names))
	}
	switch e.Kind() {
	case ast.LiteralKind:
		return e.AsLiteral().Type().TypeName()
	case ast.ListKind:
		return "list"
	case ast.MapKind:
		return "map"
	case ast.CallKind:
		switch call := e.AsCall(); call.FunctionName() {
		case operators.Add:
			if kind := kindOf(call.Args()[0]); kind != dynamic {
				return kind
			}
			return kindOf(call.Args()[1])
		case operators.Subtract, operators.Multiply, operators.Divide, operators.Modulo, operators.Negate:
			return "number"
		case overloads.Size:
			return "int"
		case overloads.TypeConvertString:
			return "string"
		}
	}
	return dynamic
}
