// Package embedded runs the provider in the calling process, for programs that do
// without Terraform what the provider can do: list the objects of a hub as
// resources, import them, and invoke actions. It speaks the protocol that Terraform
// speaks, so that both get the same answers and the same errors.
package embedded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/muster-fleet/terraform-provider-muster/provider"
)

// Provider is a configured provider. It is safe for concurrent use.
type Provider struct {
	// Warn, which may be nil, gets the provider's warnings. Set it before the first
	// call.
	Warn func(Diagnostic)

	server     provider.Server
	schemas    *tfprotov6.GetProviderSchemaResponse
	identities map[string]*tfprotov6.ResourceIdentitySchema
}

// New makes a provider with the attributes of the provider block in config: texts,
// bools, numbers, slices, and maps by text. Attributes that are left out come from
// the environment, as they do for Terraform. It contacts nobody.
func New(ctx context.Context, version string, config map[string]any) (*Provider, error) {
	server, err := provider.NewServer(version)
	if err != nil {
		return nil, err
	}
	p := &Provider{server: server}
	if p.schemas, err = server.GetProviderSchema(ctx, &tfprotov6.GetProviderSchemaRequest{}); err != nil {
		return nil, fmt.Errorf("read the provider's schema: %w", err)
	}
	identities, err := server.GetResourceIdentitySchemas(ctx, &tfprotov6.GetResourceIdentitySchemasRequest{})
	if err != nil {
		return nil, fmt.Errorf("read the provider's identities: %w", err)
	}
	p.identities = identities.IdentitySchemas
	if err := p.report(slices.Concat(p.schemas.Diagnostics, identities.Diagnostics)); err != nil {
		return nil, err
	}
	return p, p.configure(ctx, config)
}

func (p *Provider) configure(ctx context.Context, config map[string]any) error {
	values, err := dynamic(p.schemas.Provider, config)
	if err != nil {
		return fmt.Errorf("configure the provider: %w", err)
	}
	valid, err := p.server.ValidateProviderConfig(ctx, &tfprotov6.ValidateProviderConfigRequest{Config: values})
	if err == nil {
		err = p.report(valid.Diagnostics)
	}
	if err != nil {
		return err
	}
	configured, err := p.server.ConfigureProvider(ctx, &tfprotov6.ConfigureProviderRequest{Config: values})
	if err != nil {
		return err
	}
	return p.report(configured.Diagnostics)
}

// Schema is that of a resource, such as "muster_placement". Its blocks and
// attributes tell what of a state a configuration sets.
func (p *Provider) Schema(resource string) (*tfprotov6.Schema, error) {
	return named("resource", resource, p.schemas.ResourceSchemas)
}

// Listed are the types of the resources that ListResources can list, in
// alphabetical order.
func (p *Provider) Listed() []string {
	return slices.Sorted(maps.Keys(p.schemas.ListResourceSchemas))
}

// Filters are the attributes by which ListResources can choose among the resources
// of a type.
func (p *Provider) Filters(resource string) []string {
	var names []string
	for _, a := range p.schemas.ListResourceSchemas[resource].Block.Attributes {
		names = append(names, a.Name)
	}
	slices.Sort(names)
	return names
}

// named is one of all by its name. The error about one that the provider does not have
// lists those that it has.
func named[V any](what, name string, all map[string]V) (V, error) {
	found, ok := all[name]
	if !ok {
		return found, fmt.Errorf("the provider has no %s %q: it has %s", what, name,
			strings.Join(slices.Sorted(maps.Keys(all)), ", "))
	}
	return found, nil
}

// dynamic is a configuration on the wire. Attributes that are left out are null.
func dynamic(schema *tfprotov6.Schema, config map[string]any) (*tfprotov6.DynamicValue, error) {
	if config == nil {
		config = map[string]any{}
	}
	text, err := json.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("encode the configuration: %w", err)
	}
	kind := schema.ValueType()
	value, err := tfprotov6.DynamicValue{JSON: text}.Unmarshal(kind)
	if err != nil {
		return nil, err
	}
	encoded, err := tfprotov6.NewDynamicValue(kind, value)
	return &encoded, err
}

// InvokeAction runs an action with the attributes of its `config` block, and
// returns when it has ended. progress, which may be nil, is told how it goes on.
func (p *Provider) InvokeAction(
	ctx context.Context, action string, config map[string]any, progress func(message string),
) error {
	schema, err := named("action", action, p.schemas.ActionSchemas)
	if err != nil {
		return err
	}
	values, err := dynamic(schema.Schema, config)
	if err != nil {
		return fmt.Errorf("invoke %s: %w", action, err)
	}
	valid, err := p.server.ValidateActionConfig(ctx,
		&tfprotov6.ValidateActionConfigRequest{ActionType: action, Config: values})
	if err == nil {
		err = p.report(valid.Diagnostics)
	}
	if err != nil {
		return err
	}
	planned, err := p.server.PlanAction(ctx, &tfprotov6.PlanActionRequest{ActionType: action, Config: values})
	if err == nil {
		err = p.report(planned.Diagnostics)
	}
	if err != nil {
		return err
	}
	stream, err := p.server.InvokeAction(ctx, &tfprotov6.InvokeActionRequest{ActionType: action, Config: values})
	if err != nil {
		return fmt.Errorf("invoke %s: %w", action, err)
	}
	var ended error
	for event := range stream.Events {
		switch event := event.Type.(type) {
		case tfprotov6.ProgressInvokeActionEventType:
			if progress != nil {
				progress(event.Message)
			}
		case tfprotov6.CompletedInvokeActionEventType:
			ended = p.report(event.Diagnostics)
		}
	}
	return ended
}

// Diagnostic is an error or a warning of the provider. As an error it is found
// with errors.As.
type Diagnostic struct { //nolint:errname // as often a warning as an error
	// Summary says in a few words what is wrong; Detail says why, and what to do.
	Summary, Detail string
	// Attribute is the path of the attribute that it is about; empty if it is about
	// none.
	Attribute string
}

// Error implements error.
func (d Diagnostic) Error() string {
	text := d.Summary
	if d.Attribute != "" {
		text += " (" + d.Attribute + ")"
	}
	if d.Detail != "" {
		text += ": " + d.Detail
	}
	return text
}

// report hands warnings on and returns the errors as one.
func (p *Provider) report(diagnostics []*tfprotov6.Diagnostic) error {
	var failed []error
	for _, d := range diagnostics {
		reported := Diagnostic{Summary: d.Summary, Detail: d.Detail}
		if d.Attribute != nil && len(d.Attribute.Steps()) > 0 {
			reported.Attribute = d.Attribute.String()
		}
		switch {
		case d.Severity == tfprotov6.DiagnosticSeverityError:
			failed = append(failed, reported)
		case p.Warn != nil:
			p.Warn(reported)
		}
	}
	return errors.Join(failed...)
}

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
