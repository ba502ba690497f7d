package function

import (
	"context"
	"fmt"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
)

// NewLabelSelector is label_selector.
func NewLabelSelector() function.Function {
	return declared[types.Dynamic]{name: "label_selector",
		run: func(_ context.Context, argument types.Dynamic) (any, error) {
			return selectorText(argument)
		}, definition: function.Definition{
			Summary: "A label selector as text",
			MarkdownDescription: "Checks a label selector and writes it in the notation of kubectl, such as " +
				"`env=prod,region in (eu,us)`: for " +
				"the `label_selector` of data sources, for tools, and for outputs. " +
				"The result does not depend on the order of labels and values. A selector without conditions, which " +
				"selects everything, is the " +
				"empty text. `parse_label_selector` is the reverse.",
			Parameters: []function.Parameter{function.DynamicParameter{
				Name: "selector",
				MarkdownDescription: "An object with `match_labels`, a map, and `match_expressions`, a list of " +
					"objects " +
					"with `key`, `operator` " +
					"(`In`, `NotIn`, `Exists` or `DoesNotExist`) and `values`. Both may be left out.",
			}},
			Return: function.StringReturn{},
		}}
}

type selectorArgument struct {
	MatchLabels      map[string]string     `json:"match_labels"`
	MatchExpressions []requirementArgument `json:"match_expressions"`
}

type requirementArgument struct {
	Key      string   `json:"key"`
	Operator string   `json:"operator"`
	Values   []string `json:"values"`
}

func selectorText(argument types.Dynamic) (string, error) {
	var a selectorArgument
	if err := read(argument, &a); err != nil {
		return "", err
	}
	all := metav1.LabelSelector{MatchLabels: a.MatchLabels}
	for i, e := range a.MatchExpressions {
		requirement := metav1.LabelSelectorRequirement{Key: e.Key, Operator: metav1.LabelSelectorOperator(e.Operator),
			Values: e.Values}
		all.MatchExpressions = append(all.MatchExpressions, requirement)
		one := metav1.LabelSelector{MatchExpressions: all.MatchExpressions[i:]}
		if _, err := metav1.LabelSelectorAsSelector(&one); err != nil {
			return "", fmt.Errorf("match_expressions[%d]: %w", i, err)
		}
	}
	selector, err := metav1.LabelSelectorAsSelector(&all)
	if err != nil {
		return "", fmt.Errorf("match_labels: %w", err)
	}
	return selector.String(), nil
}

// NewParseLabelSelector is parse_label_selector.
func NewParseLabelSelector() function.Function {
	return declared[string]{name: "parse_label_selector", run: parsedSelector, definition: function.Definition{
		Summary: "A label selector out of its text",
		MarkdownDescription: "Reads a label selector in the notation of kubectl, such as `env=prod,region in " +
			"(eu,us),!legacy`, and " +
			"returns an object with `match_labels` and `match_expressions`, as the attribute `label_selector` of " +
			"cluster sets and placements " +
			"takes it. " +
			"The comparisons `>` and `<` are an error, because label selectors of objects do not have them.",
		Parameters: []function.Parameter{function.StringParameter{Name: "text", MarkdownDescription: "The selector. " +
			"The empty text " +
			"selects everything."}},
		Return: function.ObjectReturn{AttributeTypes: selectorTypes()},
	}}
}

func requirementTypes() map[string]attr.Type {
	return map[string]attr.Type{"key": types.StringType, "operator": types.StringType,
		"values": types.ListType{ElemType: types.StringType}}
}

func selectorTypes() map[string]attr.Type {
	return map[string]attr.Type{
		"match_labels":      types.MapType{ElemType: types.StringType},
		"match_expressions": types.ListType{ElemType: types.ObjectType{AttrTypes: requirementTypes()}},
	}
}

// parsedSelector is the result of parse_label_selector.
func parsedSelector(_ context.Context, text string) (any, error) {
	equal, conditions, err := parseSelector(text)
	if err != nil {
		return nil, fmt.Errorf("%q is not a label selector such as env=prod,region in (eu,us): %w", text, err)
	}
	var expressions []attr.Value
	for _, c := range conditions {
		expressions = append(expressions, types.ObjectValueMust(requirementTypes(), map[string]attr.Value{
			"key": types.StringValue(c.Key), "operator": types.StringValue(c.Operator),
			"values": attribute.StringListValue(c.Values),
		}))
	}
	return types.ObjectValueMust(selectorTypes(), map[string]attr.Value{
		"match_labels":      attribute.StringMapValue(equal),
		"match_expressions": types.ListValueMust(types.ObjectType{AttrTypes: requirementTypes()}, expressions),
	}), nil
}

// parseSelector makes labels of the conditions that name one value, and expressions
// of the others. A second value for a label is an expression, too: a map has one.
func parseSelector(text string) (map[string]string, []requirementArgument, error) {
	parsed, err := labels.ParseToRequirements(text)
	if err != nil {
		return nil, nil, err
	}
	equal, expressions := map[string]string{}, []requirementArgument{}
	for _, r := range parsed {
		values := slices.Sorted(slices.Values(r.Values().UnsortedList()))
		add := func(operator metav1.LabelSelectorOperator, values []string) {
			expressions = append(expressions,
				requirementArgument{Key: r.Key(), Operator: string(operator), Values: values})
		}
		switch _, twice := equal[r.Key()]; r.Operator() {
		case selection.Equals, selection.DoubleEquals:
			if twice {
				add(metav1.LabelSelectorOpIn, values)
				continue
			}
			equal[r.Key()] = values[0]
		case selection.In:
			add(metav1.LabelSelectorOpIn, values)
		case selection.NotEquals, selection.NotIn:
			add(metav1.LabelSelectorOpNotIn, values)
		case selection.Exists:
			add(metav1.LabelSelectorOpExists, nil)
		case selection.DoesNotExist:
			add(metav1.LabelSelectorOpDoesNotExist, nil)
		default:
			return nil, nil, fmt.Errorf("the comparison %q of %s is not possible in the label selector of an object",
				r.Operator(), r.Key())
		}
	}
	return equal, expressions, nil
}
