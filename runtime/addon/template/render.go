package template

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
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
	forced := forcedNamespace(in.Config)
	out := Result{Namespace: forced}
	if forced == "" {
		out.Namespace = t.ownNamespace(v)
	}
	if _, known := v[installNamespaceVariable]; !known {
		v[installNamespaceVariable] = out.Namespace
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
		if left.grow(t.counts[name]*len(v[name]), "") != nil {
			return fmt.Errorf("the placeholder %s stands in it %d times, and its value has %d bytes: "+
				"together the values may have %d bytes, so shorten it or use it less",
				excerpt(opening+name+closing), t.counts[name], len(v[name]), maxGrowth)
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
	return fmt.Sprintf(" (%s had no value: give one in customizedVariables of an AddOnDeploymentConfig)", strings.Join(out, ", "))
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
