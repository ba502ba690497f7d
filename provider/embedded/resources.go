package embedded

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// Resource is one object of the hub as a resource.
type Resource struct {
	// Type is that of the resource, such as "muster_placement".
	Type string
	// Name is for people; empty unless the resource was listed.
	Name string
	// Identity are the texts that name the object.
	Identity map[string]string
	// State is what a state would hold of it, with the type of the resource's schema.
	State tftypes.Value
}

// ID is the import ID: the texts of the identity, the one that names where the object
// is first.
func (r Resource) ID() string {
	var where, which []string
	for _, name := range slices.Sorted(maps.Keys(r.Identity)) {
		if len(r.Identity) > 1 && (name == "namespace" || name == "managed_cluster") {
			where = append(where, r.Identity[name])
		} else {
			which = append(which, r.Identity[name])
		}
	}
	return strings.Join(append(where, which...), "/")
}

// ListResources lists the objects of the hub that a resource type can manage.
// config are the attributes of the `config` block; limit is how many to list at
// most, or 0 for all. The sequence ends after the first error.
func (p *Provider) ListResources(
	ctx context.Context, resource string, config map[string]any, limit int64,
) iter.Seq2[Resource, error] {
	return func(yield func(Resource, error) bool) {
		stream, err := p.list(ctx, resource, config, limit)
		if err != nil {
			yield(Resource{}, err)
			return
		}
		for result := range stream.Results {
			var listed Resource
			err := p.report(result.Diagnostics)
			if err == nil && result.Resource == nil {
				continue // There was only a warning.
			}
			if err == nil {
				listed, err = p.resource(resource, result.Resource, result.Identity)
				listed.Name = result.DisplayName
			}
			if !yield(listed, err) || err != nil {
				return
			}
		}
	}
}

func (p *Provider) list(
	ctx context.Context, resource string, config map[string]any, limit int64,
) (*tfprotov6.ListResourceServerStream, error) {
	schema, err := named("list resource", resource, p.schemas.ListResourceSchemas)
	if err != nil {
		return nil, err
	}
	values, err := dynamic(schema, config)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", resource, err)
	}
	valid, err := p.server.ValidateListResourceConfig(ctx,
		&tfprotov6.ValidateListResourceConfigRequest{TypeName: resource, Config: values})
	if err == nil {
		err = p.report(valid.Diagnostics)
	}
	if err != nil {
		return nil, err
	}
	if limit == 0 {
		limit = 1 << 62
	}
	return p.server.ListResource(ctx,
		&tfprotov6.ListResourceRequest{TypeName: resource, Config: values, IncludeResource: true, Limit: limit})
}

// Import reads an object of the hub by its import ID.
func (p *Provider) Import(ctx context.Context, resource, id string) (Resource, error) {
	imported, err := p.server.ImportResourceState(ctx,
		&tfprotov6.ImportResourceStateRequest{TypeName: resource, ID: id})
	if err == nil {
		err = p.report(imported.Diagnostics)
	}
	if err != nil {
		return Resource{}, err
	}
	if len(imported.ImportedResources) != 1 {
		return Resource{}, fmt.Errorf("import %s %s: got %d resources", resource, id, len(imported.ImportedResources))
	}
	found := imported.ImportedResources[0]
	read, err := p.server.ReadResource(ctx, &tfprotov6.ReadResourceRequest{
		TypeName: resource, CurrentState: found.State, Private: found.Private, CurrentIdentity: found.Identity,
	})
	if err == nil {
		err = p.report(read.Diagnostics)
	}
	if err != nil {
		return Resource{}, err
	}
	return p.resource(resource, read.NewState, read.NewIdentity)
}

// resource decodes a state and an identity.
func (p *Provider) resource(
	kind string, state *tfprotov6.DynamicValue, identity *tfprotov6.ResourceIdentityData,
) (Resource, error) {
	schema, err := p.Schema(kind)
	if err != nil {
		return Resource{}, err
	}
	r := Resource{Type: kind, Identity: map[string]string{}}
	if r.State, err = state.Unmarshal(schema.ValueType()); err != nil {
		return Resource{}, fmt.Errorf("decode the state of a %s: %w", kind, err)
	}
	if r.State.IsNull() {
		return Resource{}, fmt.Errorf("the %s was deleted in the meantime", kind)
	}
	if identity == nil || identity.IdentityData == nil {
		return r, nil
	}
	attributes := map[string]tftypes.Value{}
	names, err := identity.IdentityData.Unmarshal(p.identities[kind].ValueType())
	if err == nil {
		err = names.As(&attributes)
	}
	for name, value := range attributes {
		var text string
		if err == nil && !value.IsNull() {
			err = value.As(&text)
			r.Identity[name] = text
		}
	}
	if err != nil {
		return Resource{}, fmt.Errorf("decode the identity of a %s: %w", kind, err)
	}
	return r, nil
}
