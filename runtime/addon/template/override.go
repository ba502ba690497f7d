package template

import (
	"context"
	"errors"
	"fmt"

	"github.com/muster-fleet/terraform-provider-muster/runtime/override"
)

// RenderFor is Render with the override of the template, which may be nil: it patches the
// manifests for the cluster, and gives placeholders the cluster's values. Variables of the
// configuration, and those that the hub sets, go before values. The error of a cluster that
// lacks a value names it.
func (t *Template) RenderFor(ctx context.Context, own *override.Template, in Input) (Result, error) {
	if own == nil {
		return t.Render(in)
	}
	patched, err := t.patched(ctx, own, &in)
	if err != nil {
		return Result{}, fmt.Errorf("the override of the AddOnTemplate %q: %w", t.source.Name, err)
	}
	return patched.Render(in)
}

// patched is the template as it is for the cluster, whose values become those of the input.
func (t *Template) patched(ctx context.Context, own *override.Template, in *Input) (*Template, error) {
	if in.Cluster == nil {
		return nil, errors.New("the cluster is gone, so nobody knows its values")
	}
	out := t
	manifests, err := own.Patched(ctx, in.Cluster)
	if err != nil {
		return nil, err
	}
	if manifests != nil {
		source := *t.source // all but the manifests is shared
		source.Spec.AgentSpec.Workload.Manifests = manifests
		var problems []error
		if out, problems = parse(&source); len(problems) > 0 {
			return nil, problems[0]
		}
	}
	in.Values, err = own.Values(ctx, in.Cluster, out.open(*in))
	return out, err
}

// open are the placeholders that neither the configuration nor the hub itself has a value for.
func (t *Template) open(in Input) (names []string) {
	known := t.variables(in.Config, in.Cluster.Name)
	for _, name := range t.placeholders {
		if _, ok := known[name]; !ok && name != installNamespaceVariable {
			names = append(names, name)
		}
	}
	return names
}
