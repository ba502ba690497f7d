package wellformed

import (
	"context"
	"sync"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
)

// Provider is all that the provider's server does.
type Provider interface {
	tfprotov6.ProviderServer
	tfprotov6.ListResourceServer
	tfprotov6.ActionServer
}

// Guard checks each configuration before the server gets it. A configuration with
// something wrong is not handed on.
func Guard(server Provider) Provider { return &guard{Provider: server} }

type guard struct {
	Provider
	once    sync.Once
	schemas *tfprotov6.GetProviderSchemaResponse
	err     error
}

// kinds are the types of all configurations.
func (g *guard) kinds(ctx context.Context) (*tfprotov6.GetProviderSchemaResponse, error) {
	g.once.Do(func() {
		// The framework keeps it, and needs it for whatever comes next.
		g.schemas, g.err = g.GetProviderSchema(context.WithoutCancel(ctx), &tfprotov6.GetProviderSchemaRequest{})
	})
	return g.schemas, g.err
}

// check is what is wrong with a configuration. The server explains what can't be read.
func (g *guard) check(ctx context.Context, config *tfprotov6.DynamicValue, schema func(*tfprotov6.GetProviderSchemaResponse) *tfprotov6.Schema) []*tfprotov6.Diagnostic {
	schemas, err := g.kinds(ctx)
	if err != nil || config == nil {
		return nil
	}
	s := schema(schemas)
	if s == nil {
		return nil
	}
	kind := s.ValueType()
	value, err := config.Unmarshal(kind)
	if err != nil {
		return nil
	}
	return Check(kind, value)
}

// ValidateProviderConfig implements tfprotov6.ProviderServer.
func (g *guard) ValidateProviderConfig(ctx context.Context, req *tfprotov6.ValidateProviderConfigRequest) (*tfprotov6.ValidateProviderConfigResponse, error) {
	wrong := g.check(ctx, req.Config, func(s *tfprotov6.GetProviderSchemaResponse) *tfprotov6.Schema { return s.Provider })
	if len(wrong) > 0 {
		return &tfprotov6.ValidateProviderConfigResponse{PreparedConfig: req.Config, Diagnostics: wrong}, nil
	}
	return g.Provider.ValidateProviderConfig(ctx, req)
}

// ValidateResourceConfig implements tfprotov6.ResourceServer.
func (g *guard) ValidateResourceConfig(ctx context.Context, req *tfprotov6.ValidateResourceConfigRequest) (*tfprotov6.ValidateResourceConfigResponse, error) {
	wrong := g.check(ctx, req.Config, func(s *tfprotov6.GetProviderSchemaResponse) *tfprotov6.Schema { return s.ResourceSchemas[req.TypeName] })
	if len(wrong) > 0 {
		return &tfprotov6.ValidateResourceConfigResponse{Diagnostics: wrong}, nil
	}
	return g.Provider.ValidateResourceConfig(ctx, req)
}

// ValidateDataResourceConfig implements tfprotov6.DataSourceServer.
func (g *guard) ValidateDataResourceConfig(ctx context.Context, req *tfprotov6.ValidateDataResourceConfigRequest) (*tfprotov6.ValidateDataResourceConfigResponse, error) {
	wrong := g.check(ctx, req.Config, func(s *tfprotov6.GetProviderSchemaResponse) *tfprotov6.Schema {
		return s.DataSourceSchemas[req.TypeName]
	})
	if len(wrong) > 0 {
		return &tfprotov6.ValidateDataResourceConfigResponse{Diagnostics: wrong}, nil
	}
	return g.Provider.ValidateDataResourceConfig(ctx, req)
}

// ValidateEphemeralResourceConfig implements tfprotov6.EphemeralResourceServer.
func (g *guard) ValidateEphemeralResourceConfig(ctx context.Context, req *tfprotov6.ValidateEphemeralResourceConfigRequest) (*tfprotov6.ValidateEphemeralResourceConfigResponse, error) {
	wrong := g.check(ctx, req.Config, func(s *tfprotov6.GetProviderSchemaResponse) *tfprotov6.Schema {
		return s.EphemeralResourceSchemas[req.TypeName]
	})
	if len(wrong) > 0 {
		return &tfprotov6.ValidateEphemeralResourceConfigResponse{Diagnostics: wrong}, nil
	}
	return g.Provider.ValidateEphemeralResourceConfig(ctx, req)
}

// ValidateListResourceConfig implements tfprotov6.ListResourceServer.
func (g *guard) ValidateListResourceConfig(ctx context.Context, req *tfprotov6.ValidateListResourceConfigRequest) (*tfprotov6.ValidateListResourceConfigResponse, error) {
	wrong := g.check(ctx, req.Config, func(s *tfprotov6.GetProviderSchemaResponse) *tfprotov6.Schema {
		return s.ListResourceSchemas[req.TypeName]
	})
	if len(wrong) > 0 {
		return &tfprotov6.ValidateListResourceConfigResponse{Diagnostics: wrong}, nil
	}
	return g.Provider.ValidateListResourceConfig(ctx, req)
}

// ValidateActionConfig implements tfprotov6.ActionServer.
func (g *guard) ValidateActionConfig(ctx context.Context, req *tfprotov6.ValidateActionConfigRequest) (*tfprotov6.ValidateActionConfigResponse, error) {
	wrong := g.check(ctx, req.Config, func(s *tfprotov6.GetProviderSchemaResponse) *tfprotov6.Schema {
		if action := s.ActionSchemas[req.ActionType]; action != nil {
			return action.Schema
		}
		return nil
	})
	if len(wrong) > 0 {
		return &tfprotov6.ValidateActionConfigResponse{Diagnostics: wrong}, nil
	}
	return g.Provider.ValidateActionConfig(ctx, req)
}
