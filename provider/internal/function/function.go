// Package function has the provider's functions: pure computations on values of a
// configuration, without a hub. Each is a thin cover over the package that does the
// same for a resource.
package function

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/connection"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// declared is a function with one argument of Go's type A
// and a result of its type R.
type declared[A, R any] struct {
	name, summary, description string
	// argument is the name of the argument, and about its description.
	argument, about string
	returns         function.Return
	// run makes the result. Its error is that of the argument.
	run func(ctx context.Context, argument A) (R, error)
}

// Metadata implements function.Function.
func (f declared[A, R]) Metadata(_ context.Context, _ function.MetadataRequest, resp *function.MetadataResponse) {
	resp.Name = f.name
}

// Definition implements function.Function.
func (f declared[A, R]) Definition(_ context.Context, _ function.DefinitionRequest, resp *function.DefinitionResponse) {
	var argument function.Parameter = function.DynamicParameter{Name: f.argument, MarkdownDescription: f.about}
	if _, isText := any(*new(A)).(string); isText {
		argument = function.StringParameter{Name: f.argument, MarkdownDescription: f.about}
	}
	resp.Definition = function.Definition{
		Summary: f.summary, MarkdownDescription: f.description, Parameters: []function.Parameter{argument},
		Return: f.returns,
	}
}

// Run implements function.Function.
func (f declared[A, R]) Run(ctx context.Context, req function.RunRequest, resp *function.RunResponse) {
	var argument A
	if resp.Error = req.Arguments.Get(ctx, &argument); resp.Error != nil {
		return
	}
	result, err := f.run(ctx, argument)
	if err != nil {
		resp.Error = refuse(err)
		return
	}
	resp.Error = resp.Result.Set(ctx, result)
}

// hcl are objects as a result, unless there is an error.
func hcl(objects []any, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	value, err := workload.HCLValue(objects)
	return types.DynamicValue(value), err
}

// refuse is the error of the first argument. Terraform says before it which one
// that is, and ends the sentence.
func refuse(err error) *function.FuncError {
	return function.NewArgumentFuncError(0, strings.TrimSuffix(err.Error(), "."))
}

// read takes the attributes of an object. Attributes that are left out are null.
// Terraform asks for every attribute of an argument that has the type of an object, so that
// such arguments are of any type. Errors name the attribute.
func read(ctx context.Context, argument types.Dynamic, attributes map[string]attr.Type) (attribute.Values, error) {
	kind, found := types.ObjectType{AttrTypes: attributes}, findings{all: true}
	if found.compare(ctx, "", kind, argument); len(found.errors) > 0 {
		return nil, errors.New(found.errors[0])
	}
	value, err := workload.JSONValue(argument)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	converted, err := tfprotov6.DynamicValue{JSON: text}.Unmarshal(kind.TerraformType(ctx))
	if err != nil {
		return nil, err
	}
	object, err := kind.ValueFromTerraform(ctx, converted)
	values, _ := object.(types.Object)
	return values.Attributes(), err
}

// The functions whose results are texts, and the one that reads such a text.

// NewClusterName is cluster_name.
func NewClusterName() function.Function {
	return declared[string, string]{
		name: "cluster_name", run: func(_ context.Context, text string) (string, error) { return nameOf(text) },
		summary: "A valid name for a managed cluster",
		description: "Makes the name of a managed cluster out of any text, such as an ARN, a context or a " +
			"path. A text that is a valid name already stays as it is. Any other one is reduced to lower-case " +
			"letters, digits and hyphens, shortened to 63 characters, and gets a hash of the whole text at its end, " +
			"so that two different texts do not get the same name. The same text always gets the same name.\n\n" +
			"A text without any letter or digit of ASCII, and a reserved name such as `default`, are errors.",
		argument: "text", about: "Any text that identifies the cluster.",
		returns: function.StringReturn{},
	}
}

// hashLength is how much of the hash a name gets: 40 bits.
const hashLength = 10

func nameOf(text string) (string, error) {
	if len(validation.IsDNS1123Label(text)) == 0 {
		return text, cluster.ReservedName(text)
	}
	var cleaned strings.Builder
	for _, r := range strings.ToLower(text) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			cleaned.WriteRune(r)
		case !strings.HasSuffix(cleaned.String(), "-"):
			cleaned.WriteByte('-')
		}
	}
	name := strings.Trim(cleaned.String(), "-")
	if name == "" {
		return "", fmt.Errorf("%q has no letter from a to z and no digit, so there is no name to make of it", text)
	}
	// The end of a path or an ARN tells more than its beginning.
	if most := validation.DNS1123LabelMaxLength - hashLength - 1; len(name) > most {
		name = strings.Trim(name[len(name)-most:], "-")
	}
	sum := sha256.Sum256([]byte(text))
	name += "-" + hex.EncodeToString(sum[:])[:hashLength]
	return name, cluster.ReservedName(name)
}

// NewKubeconfig is kubeconfig.
func NewKubeconfig() function.Function {
	return declared[types.Dynamic, string]{
		name: "kubeconfig", run: renderKubeconfig,
		summary: "A kubeconfig",
		description: "Writes a kubeconfig with one cluster, one user and one context, from the outputs of " +
			"whatever made the cluster: for `kubeconfig` of `cluster_connection`, for a file, or for other tools. " +
			"What does not go together, such as two credentials, and what is not PEM, is an error. A result with " +
			"sensitive or ephemeral values in it is sensitive or ephemeral, too.",
		argument: "connection", about: "An object with the attributes of `cluster_connection`: `host`, which is " +
			"required, `cluster_ca_certificate`, `tls_server_name`, `insecure`, `proxy_url`, one credential of " +
			"`token`, `client_certificate` with `client_key`, `username` with `password`, and `exec`; and " +
			"`impersonate`. Further `name`, which the cluster, the user and the context get, and which defaults to " +
			"`muster`, and `namespace`, the context's.",
		returns: function.StringReturn{},
	}
}

func renderKubeconfig(ctx context.Context, argument types.Dynamic) (string, error) {
	kind, _ := connection.ResourceAttribute("").GetType().(types.ObjectType)
	attributes := map[string]attr.Type{"name": types.StringType, "namespace": types.StringType}
	for _, name := range []string{
		"host", "cluster_ca_certificate", "tls_server_name", "insecure", "proxy_url", "token", "client_certificate",
		"client_key", "username", "password", "exec", "impersonate",
	} {
		attributes[name] = kind.AttrTypes[name]
	}
	given, err := read(ctx, argument, attributes)
	if err != nil {
		return "", err
	}
	values := attribute.Values{}
	for name, of := range kind.AttrTypes {
		values[name] = attribute.Null(of)
		if given.IsSet(name) && !given[name].Equal(types.StringValue("")) {
			values[name] = given[name]
		}
	}
	m := connection.Of(types.ObjectValueMust(kind.AttrTypes, values))
	if err := m.Validate(ctx); err != nil {
		return "", err
	}
	return m.Connection().Render(cmp.Or(given.Text("name"), "muster"), given.Text("namespace"))
}

// NewLabelSelector is label_selector.
func NewLabelSelector() function.Function {
	return declared[types.Dynamic, string]{
		name: "label_selector", run: selectorText,
		summary: "A label selector as text",
		description: "Checks a label selector and writes it in the notation of kubectl, such as " +
			"`env=prod,region in (eu,us)`: for the `label_selector` of data sources, for tools, and for " +
			"outputs. The result does not depend on the order of labels and values. A selector without " +
			"conditions, which selects everything, is the empty text. `parse_label_selector` is the reverse.",
		argument: "selector", about: "An object with `match_labels`, a map, and `match_expressions`, a list of " +
			"objects with `key`, `operator` (`In`, `NotIn`, `Exists` or `DoesNotExist`) and `values`. Both " +
			"may be left out.",
		returns: function.StringReturn{},
	}
}

func selectorText(ctx context.Context, argument types.Dynamic) (string, error) {
	given, err := read(ctx, argument, selectorTypes())
	if err != nil {
		return "", err
	}
	equal, _ := given["match_labels"].(types.Map)
	expressions, _ := given["match_expressions"].(types.List)
	all := metav1.LabelSelector{MatchLabels: attribute.StringMap(equal)}
	for i, e := range attribute.EachObject(expressions) {
		one := metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: e.Text("key"), Operator: metav1.LabelSelectorOperator(e.Text("operator")), Values: e.Texts("values"),
		}}}
		if _, err := metav1.LabelSelectorAsSelector(&one); err != nil {
			return "", fmt.Errorf("match_expressions[%d]: %w", i, err)
		}
		all.MatchExpressions = append(all.MatchExpressions, one.MatchExpressions...)
	}
	selector, err := metav1.LabelSelectorAsSelector(&all)
	if err != nil {
		return "", fmt.Errorf("match_labels: %w", err)
	}
	return selector.String(), nil
}

// NewParseLabelSelector is parse_label_selector.
func NewParseLabelSelector() function.Function {
	return declared[string, any]{
		name: "parse_label_selector", run: parsedSelector,
		summary: "A label selector out of its text",
		description: "Reads a label selector in the notation of kubectl, such as `env=prod,region in " +
			"(eu,us),!legacy`, and returns an object with `match_labels` and `match_expressions`, as the attribute " +
			"`label_selector` of cluster sets and placements takes it. The comparisons `>` and `<` are an error, " +
			"because label selectors of objects do not have them.",
		argument: "text", about: "The selector. The empty text selects everything.",
		returns: function.ObjectReturn{AttributeTypes: selectorTypes()},
	}
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
			"key": types.StringValue(c.Key), "operator": types.StringValue(string(c.Operator)),
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
func parseSelector(text string) (map[string]string, []metav1.LabelSelectorRequirement, error) {
	parsed, err := labels.ParseToRequirements(text)
	if err != nil {
		return nil, nil, err
	}
	equal, expressions := map[string]string{}, []metav1.LabelSelectorRequirement{}
	for _, r := range parsed {
		values := slices.Sorted(slices.Values(r.Values().UnsortedList()))
		add := func(operator metav1.LabelSelectorOperator, values []string) {
			expressions = append(expressions,
				metav1.LabelSelectorRequirement{Key: r.Key(), Operator: operator, Values: values})
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
