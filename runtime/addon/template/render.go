package template

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
	out := Result{Namespace: forcedNamespace(in.Config)}
	if out.Namespace == "" {
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
	for _, m := range t.manifests {
		o, err := m.object(v)
		if err != nil {
			return out, err
		}
		out.Objects = append(out.Objects, o)
	}
	return out, nil
}

// object is the object that a manifest says.
func (m manifest) object(v values) (*unstructured.Unstructured, error) {
	tree, err := expandFields(m.tree, v, len(m.tree))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.at, err)
	}
	return &unstructured.Unstructured{Object: tree}, nil
}
