// Package embedded runs the provider in the calling process, for programs that do
// without Terraform what the provider can do: list the objects of a hub as
// resources, import them, and invoke actions. It speaks the protocol that Terraform
// speaks, so that both get the same answers and the same errors.
package embedded

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/muster-fleet/terraform-provider-muster/provider"
)

// server is what the framework's server can do.
type server interface {
	tfprotov6.ProviderServer
	tfprotov6.ListResourceServer
	tfprotov6.ActionServer
}

// Provider is a configured provider. It is safe for concurrent use.
type Provider struct {
	// Warn, which may be nil, gets the provider's warnings. Set it before the first
	// call.
	Warn func(Diagnostic)

	server     server
	schemas    *tfprotov6.GetProviderSchemaResponse
	identities map[string]*tfprotov6.ResourceIdentitySchema
}

// New makes a provider with the attributes of the provider block in config: texts,
// bools, numbers, slices, and maps by text. Attributes that are left out come from
// the environment, as they do for Terraform. It contacts nobody.
func New(ctx context.Context, version string, config map[string]any) (*Provider, error) {
	made, err := provider.NewServer(version)
	if err != nil {
		return nil, err
	}
	full, ok := made.(server)
	if !ok {
		return nil, fmt.Errorf("start the provider: its server %T has no lists or actions", made)
	}
	p := &Provider{server: full}
	if p.schemas, err = full.GetProviderSchema(ctx, &tfprotov6.GetProviderSchemaRequest{}); err != nil {
		return nil, fmt.Errorf("read the provider's schema: %w", err)
	}
	identities, err := full.GetResourceIdentitySchemas(ctx, &tfprotov6.GetResourceIdentitySchemasRequest{})
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
	values, err := dynamic(p.schemas.Provider.ValueType(), config)
	if err != nil {
		return fmt.Errorf("configure the provider: %w", err)
	}
	valid, err := p.server.ValidateProviderConfig(ctx, &tfprotov6.ValidateProviderConfigRequest{Config: values})
	if err != nil {
		return fmt.Errorf("validate the provider's configuration: %w", err)
	}
	if err := p.report(valid.Diagnostics); err != nil {
		return err
	}
	configured, err := p.server.ConfigureProvider(ctx, &tfprotov6.ConfigureProviderRequest{Config: values})
	if err != nil {
		return fmt.Errorf("configure the provider: %w", err)
	}
	return p.report(configured.Diagnostics)
}

// Schema is that of a resource, such as "muster_placement". Its blocks and
// attributes tell what of a state a configuration sets.
func (p *Provider) Schema(resource string) (*tfprotov6.Schema, error) {
	schema, ok := p.schemas.ResourceSchemas[resource]
	if !ok {
		return nil, unknown("resource", resource, p.schemas.ResourceSchemas)
	}
	return schema, nil
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

// unknown is the error about a name that the provider does not have.
func unknown[V any](what, name string, all map[string]V) error {
	names := slices.Sorted(maps.Keys(all))
	if len(names) == 0 {
		return fmt.Errorf("the provider has no %s %q: it has none at all", what, name)
	}
	return fmt.Errorf("the provider has no %s %q: it has %s", what, name, strings.Join(names, ", "))
}
