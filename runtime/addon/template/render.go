package template

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
)

// Render makes the objects of an add-on in a cluster. Where that is impossible the
// error names the template, and the manifest or the field of the configuration.
func (t *Template) Render(in Input) (Result, error) {
	out, err := t.render(in)
	if err != nil {
		return Result{}, fmt.Errorf("AddOnTemplate %q: %w", t.source.Name, err)
	}
	return out, nil
}

func (t *Template) render(in Input) (Result, error) {
	if in.AddOn == nil {
		return Result{}, errors.New("there is no ManagedClusterAddOn to make objects for")
	}
	clusterName := in.AddOn.Namespace
	if in.Cluster != nil {
		clusterName = in.Cluster.Name
	}
	variables := t.variables(in.Config, clusterName)
	v := variables.texts()
	for name, scalar := range in.Values {
		if _, known := v[name]; !known {
			v[name] = valueOf(scalar)
		}
	}
	forced := forcedNamespace(in.Config)
	out := Result{Namespace: forced}
	if forced == "" {
		out.Namespace = t.ownNamespace(v)
	}
	if _, known := v[installNamespaceVariable]; !known {
		v[installNamespaceVariable] = value{text: out.Namespace}
	}
	for _, name := range t.placeholders {
		if _, known := v[name]; !known {
			out.Unknown = append(out.Unknown, name)
		}
	}
	left := newBudget()
	if err := t.checkGrowth(v, left); err != nil {
		return out, err
	}
	changes, err := t.changesOf(in, variables, left)
	if err != nil {
		return out, err
	}
	all := newObjects(len(t.manifests) + 1)
	for _, m := range t.manifests {
		if err := all.addManifest(m, v, forced, changes); err != nil {
			return out, err
		}
	}
	additions, err := changes.additions(all.list, out.Namespace)
	if err != nil {
		return out, err
	}
	for _, o := range additions {
		if err := all.add(o, "the ConfigMap for the proxy's certificates", ""); err != nil {
			return out, err
		}
	}
	out.Objects = all.list
	out.ManifestConfigs, err = t.manifestConfigs(all.list, forced, v, left)
	return out, err
}

// checkGrowth charges for the values of placeholders before any is put in.
func (t *Template) checkGrowth(v values, left *budget) error {
	for _, name := range t.placeholders {
		if left.grow(t.counts[name]*len(v[name].text), "") != nil {
			return fmt.Errorf("the placeholder %s stands in it %d times, and its value has %d bytes: "+
				"together the values may have %d bytes, so shorten it or use it less",
				excerpt(opening+name+closing), t.counts[name], len(v[name].text), maxGrowth)
		}
	}
	return nil
}

// objects are those of a result, and where each comes from.
type objects struct {
	list []*unstructured.Unstructured
	from map[identity]origin
}

// identity is what there is one object of in a cluster.
type identity struct {
	schema.GroupKind
	types.NamespacedName
}

// origin is where an object comes from: its place in the list of objects, what it is
// called in messages, and its name before namespaces were replaced.
type origin struct {
	index      int
	label, own string
}

func newObjects(capacity int) *objects {
	return &objects{list: make([]*unstructured.Unstructured, 0, capacity), from: make(map[identity]origin, capacity)}
}

// addManifest adds the object that a manifest says.
func (a *objects) addManifest(m manifest, v values, forced string, c *changes) error {
	tree, err := expandFields(m.tree, v, len(m.tree))
	if err != nil {
		return fmt.Errorf("%s: %w", m.at, err)
	}
	o := &unstructured.Unstructured{Object: tree}
	if err := checkIdentity(o); err != nil {
		return fmt.Errorf("%s: %w%s", label(m.at, o), err, m.without(v))
	}
	label, own := label(m.at, o), o.GetName()
	if isWorkload(o) {
		if err := c.apply(o); err != nil {
			return fmt.Errorf("%s: %w%s", label, err, m.without(v))
		}
	}
	if forced != "" {
		if err := moveTo(o, forced); err != nil {
			return fmt.Errorf("%s: %w", label, err)
		}
	}
	return a.add(o, label, own)
}

// add adds an object. One that is there already, just the same, is there once. Of
// Namespaces that have become one because another namespace replaced theirs, the last
// counts, as upstream.
func (a *objects) add(o *unstructured.Unstructured, label, own string) error {
	id := identity{o.GroupVersionKind().GroupKind(), types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}}
	before, twice := a.from[id]
	switch {
	case !twice:
		a.from[id] = origin{len(a.list), label, own}
		a.list = append(a.list, o)
		return nil
	case isNamespace(o) && before.own != own:
		a.from[id] = origin{before.index, label, own}
		a.list[before.index] = o
		return nil
	case apiequality.Semantic.DeepEqual(a.list[before.index].Object, o.Object):
		return nil
	}
	return fmt.Errorf("%s and %s say the same object, the %s %s, in two ways: remove one, or give it another name",
		before.label, label, id.Kind, name(o))
}

// checkIdentity checks what every object needs.
func checkIdentity(o *unstructured.Unstructured) error {
	for _, field := range []string{"apiVersion", "kind"} {
		switch x := o.Object[field].(type) {
		case nil:
			return fmt.Errorf("%s is missing: every manifest needs one", field)
		case string:
			if x == "" {
				return fmt.Errorf("%s is empty: every manifest needs one", field)
			}
		default:
			return fmt.Errorf("%s is %s, which is no text", field, quoted(fmt.Sprint(x)))
		}
	}
	metadata, ok := o.Object["metadata"].(map[string]any)
	if !ok {
		return errors.New("metadata is missing: every manifest needs a metadata.name")
	}
	if x, ok := metadata["name"].(string); !ok || x == "" {
		return errors.New("metadata.name is missing: every manifest needs one, and generateName does not do, as it is applied again and again")
	}
	switch metadata["namespace"].(type) {
	case nil, string:
		return nil
	}
	return fmt.Errorf("metadata.namespace is %s, which is no text", quoted(fmt.Sprint(metadata["namespace"])))
}

// without says which placeholders of a manifest have no value, as that may be why there
// is something wrong with it.
func (m manifest) without(v values) string {
	names := map[string]int{}
	countPlaceholders(m.tree, names)
	var out []string
	for name := range names {
		if _, known := v[name]; !known {
			out = append(out, opening+name+closing)
		}
	}
	if len(out) == 0 {
		return ""
	}
	slices.Sort(out)
	return fmt.Sprintf(" (%s had no value: give one in customizedVariables of an AddOnDeploymentConfig, or in the "+
		"override of the template)", strings.Join(out, ", "))
}

// label is what an object is called in messages.
func label(at string, o *unstructured.Unstructured) string {
	kind, _ := o.Object["kind"].(string)
	if kind == "" {
		return at
	}
	if n := name(o); n != "" {
		return fmt.Sprintf("%s (%s %s)", at, kind, n)
	}
	return fmt.Sprintf("%s (%s)", at, kind)
}

// name is the name of an object with its namespace.
func name(o *unstructured.Unstructured) string {
	if o.GetNamespace() != "" {
		return o.GetNamespace() + "/" + o.GetName()
	}
	return o.GetName()
}

const (
	// maxGrowth is by how many bytes values of placeholders and a configuration may
	// make an add-on larger. It is beyond what several works can carry, and keeps a
	// small template with a large configuration from filling the memory.
	maxGrowth = 8 << 20
	// maxSteps is how many steps the rules of a configuration and of a template may take
	// to be compared, each of some ten nanoseconds.
	maxSteps = 20_000_000
	// maxStates is how many states the regular expressions of a configuration may have
	// together once their repetitions are written out.
	maxStates = 20_000
	// overhead is what a field that a configuration adds takes beside its texts, in bytes.
	overhead = 32
)

// budget is what rendering an add-on in one cluster may still cost: bytes that it grows
// by, and steps.
type budget struct{ bytes, steps int }

func newBudget() *budget { return &budget{maxGrowth, maxSteps} }

// grow charges for bytes. what is what they are for, for the message.
func (b *budget) grow(bytes int, what string) error {
	if b.bytes -= bytes; b.bytes < 0 {
		return fmt.Errorf("%s would make the add-on more than %d bytes larger than its template says, "+
			"together with the values of placeholders: shorten them, or have fewer manifests and containers that get them",
			what, maxGrowth)
	}
	return nil
}

// step charges for steps. what is what is compared, for the message.
func (b *budget) step(steps int, what string) error {
	if b.steps -= steps; b.steps < 0 {
		return fmt.Errorf("%s would take more than %d steps to be compared: "+
			"have fewer of them, or fewer manifests and containers", what, maxSteps)
	}
	return nil
}

// sizeOf is how many bytes a value takes as JSON.
func sizeOf(value any) int {
	data, err := json.Marshal(value)
	if err != nil {
		return 0 // it came as JSON
	}
	return len(data)
}

// statesOf is about how many states a regular expression has once its repetitions are
// written out, up to the first count beyond maxStates: (a{50}){20} has a thousand.
func statesOf(r *syntax.Regexp) int {
	n := 1
	for _, sub := range r.Sub {
		n = min(n+statesOf(sub), maxStates+1)
	}
	switch r.Op {
	case syntax.OpLiteral:
		n += len(r.Rune)
	case syntax.OpCharClass:
		n += len(r.Rune) / 16
	case syntax.OpRepeat:
		n *= max(1, r.Min, r.Max) // at most a thousand, which the parser sees to
	}
	return min(n, maxStates+1)
}

// Marks of a placeholder. Nothing may stand between them and its name: {{ NAME }} is
// another name than {{NAME}}.
const (
	opening = "{{"
	closing = "}}"
)

// markedText is a text of a manifest, cut at its placeholders: what stands before the first
// one, and for each its name and what stands behind it.
type markedText struct {
	before string
	rest   []placeholder
}

type placeholder struct{ name, behind string }

// parseText cuts a text at its placeholders.
func parseText(s string) (markedText, error) {
	var t markedText
	before, tail, found := strings.Cut(s, opening)
	t.before = before
	for found {
		name, after, closed := strings.Cut(tail, closing)
		if !closed {
			return markedText{}, fmt.Errorf("%s opens a placeholder that nothing closes: close it with %s, as in {{CLUSTER_NAME}}; for the characters %s"+
				" themselves put them into a variable of an AddOnDeploymentConfig", quoted(s), closing, opening)
		}
		var behind string
		behind, tail, found = strings.Cut(after, opening)
		t.rest = append(t.rest, placeholder{name, behind})
	}
	return t, nil
}

// in is the text with values for its placeholders. One without a value is left out.
func (t markedText) in(v values) string {
	if len(t.rest) == 0 {
		return t.before
	}
	var b strings.Builder
	b.WriteString(t.before)
	for _, p := range t.rest {
		b.WriteString(v[p.name].text)
		b.WriteString(p.behind)
	}
	return b.String()
}

// filled is what stands in the place of the text: the value itself where the text is nothing
// but its placeholder.
func (t markedText) filled(v values) any {
	if len(t.rest) == 1 && t.before == "" && t.rest[0].behind == "" {
		if scalar := v[t.rest[0].name].scalar; scalar != nil {
			return scalar
		}
	}
	return t.in(v)
}

// size is how many bytes the text has with values for its placeholders.
func (t markedText) size(v values) int {
	n := len(t.before)
	for _, p := range t.rest {
		n += len(v[p.name].text) + len(p.behind)
	}
	return n
}

// values are what stands for placeholders, by name.
type values map[string]value

// value is what stands for a placeholder.
type value struct {
	text string
	// scalar is the value where it is a number or a boolean; nil for a text.
	scalar any
}

// valueOf is a value of the cluster, which is taken as it is.
func valueOf(scalar any) value {
	switch v := scalar.(type) {
	case string:
		return value{text: v}
	case float64:
		return value{strconv.FormatFloat(v, 'f', -1, 64), v}
	case uint64:
		if v <= math.MaxInt64 {
			return value{fmt.Sprint(v), int64(v)}
		}
		return value{fmt.Sprint(v), float64(v)}
	}
	return value{fmt.Sprint(scalar), scalar}
}

// asText is the value of a variable as it counts inside a text. As upstream, a value
// that can stand between the quotes of a JSON text is read like one: \n is the end of a
// line. Any other, such as one with a quote or the end of a line in it, is taken as it
// is, where upstream makes invalid JSON or lets it end the text.
func asText(value string) string {
	if !strings.Contains(value, `\`) {
		return value
	}
	var read string
	if json.Unmarshal([]byte(`"`+value+`"`), &read) != nil {
		return value
	}
	return read
}

// quoted is a text for a message: quoted, and cut short where it is long.
func quoted(s string) string {
	return fmt.Sprintf("%q", text.Cut(s, 100))
}

// excerpt is a text for a message, cut short where it is very long.
func excerpt(s string) string { return text.Cut(s, 1000) }

// Variables that need no configuration.
const (
	hubKubeconfigVariable    = "HUB_KUBECONFIG"
	clusterNameVariable      = "CLUSTER_NAME"
	installNamespaceVariable = "INSTALL_NAMESPACE"
)

// hubKubeconfig is the path of the kubeconfig for the hub in the agent's containers.
const hubKubeconfig = "/managed/hub-kubeconfig/kubeconfig"

// variables are values as a configuration and containers have them, by name.
type variables map[string]string

// variables are those of an add-on in a cluster. Those of a configuration go before the
// path of the kubeconfig, and behind the names of the cluster and of the namespace.
// INSTALL_NAMESPACE is only there when the configuration has one.
func (t *Template) variables(config *v1alpha1.AddOnDeploymentConfig, clusterName string) variables {
	v := variables{}
	if t.source.Spec.Registration != nil {
		v[hubKubeconfigVariable] = hubKubeconfig
	}
	if config != nil {
		for _, variable := range config.Spec.CustomizedVariables {
			v[variable.Name] = variable.Value
		}
	}
	if clusterName != "" {
		v[clusterNameVariable] = clusterName
	}
	if forced := forcedNamespace(config); forced != "" {
		v[installNamespaceVariable] = forced
	}
	return v
}

// texts are variables as they count inside texts.
func (v variables) texts() values {
	out := make(values, len(v))
	for name, given := range v {
		out[name] = value{text: asText(given)}
	}
	return out
}
