package override

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-fleet/terraform-provider-muster/internal/recovery"
	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// OfAddOn is an AddOnTemplate with the override in its annotation; nil for one without. A
// manifest may have limit bytes at most. Placeholders without a value are no errors: an add-on
// has other variables, too. The error says what is wrong with the annotation.
func OfAddOn(t *addonv1alpha1.AddOnTemplate, limit int) (*Template, error) {
	ref, err := ReferenceOf(t.Annotations)
	if err != nil || ref.None() {
		return nil, err
	}
	if ref.Inline == nil {
		return nil, fmt.Errorf(
			"the annotation %s of an AddOnTemplate has to be the spec of a WorkOverride as JSON: a "+
				"WorkOverride has a namespace, and an AddOnTemplate has none",
			muster.OverrideAnnotation,
		)
	}
	read, err := Read(*ref.Inline)
	if err == nil {
		var out *Template
		if out, err = read.bind(t.Spec.AgentSpec, limit, func([]byte, string) error { return nil }); err == nil {
			return out, nil
		}
	}
	return nil, fmt.Errorf("the annotation %s: %w", muster.OverrideAnnotation, err)
}

// Patched are the manifests of an add-on's template for a cluster, with their placeholders;
// nil where they are the template's own. A patch changes what an object says, and not which
// object it is: the hub has to know without any cluster where an add-on's agent is.
func (t *Template) Patched(ctx context.Context, cluster *clusterv1.ManagedCluster) (_ []workv1.Manifest, err error) {
	defer recovery.Into(&err)
	r, some := t.rendering(ctx, cluster), false
	out := make([]workv1.Manifest, len(t.parts))
	for i, p := range t.parts {
		raw, patched, err := r.patched(i, p)
		if err != nil {
			return nil, err
		}
		if patched {
			some = true
			if err := same(p.object, raw); err != nil {
				return nil, err
			}
		}
		out[i] = workv1.Manifest{RawExtension: runtime.RawExtension{Raw: raw}}
	}
	if !some {
		return nil, nil
	}
	return out, nil
}

// same checks that a patch has left an object the one that it was.
func same(was *unstructured.Unstructured, raw []byte) error {
	is := &unstructured.Unstructured{}
	if err := is.UnmarshalJSON(raw); err != nil {
		return fmt.Errorf(
			"the %s %s is no Kubernetes object after the overrides: %w",
			was.GetKind(),
			was.GetName(),
			err,
		)
	}
	for _, field := range []struct{ name, was, is string }{
		{"apiVersion", was.GetAPIVersion(), is.GetAPIVersion()}, {"kind", was.GetKind(), is.GetKind()},
		{"metadata.name", was.GetName(), is.GetName()}, {"metadata.namespace", was.GetNamespace(), is.GetNamespace()},
	} {
		if field.was != field.is {
			return fmt.Errorf("the overrides change %s of the %s %s from %q to %q: an override of an add-on may not "+
				"make another object of one: list both in the template", field.name, was.GetKind(),
				was.GetName(), field.was, field.is)
		}
	}
	return nil
}

// Values are what the placeholders of these names stand for in a cluster. Names that the
// override has no value for are left out. The error says which values the cluster lacks; it
// does not name the cluster.
func (t *Template) Values(
	ctx context.Context,
	cluster *clusterv1.ManagedCluster,
	names []string,
) (_ map[string]any, err error) {
	defer recovery.Into(&err)
	r, out := t.rendering(ctx, cluster), map[string]any{}
	for _, name := range names {
		if _, ok := t.values[name]; !ok {
			continue
		}
		if out[name], err = r.value(name); err != nil {
			return nil, err
		}
	}
	return out, r.lacks()
}
