package provider

import (
	"context"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"sync"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// The provider refuses configurations that none of its attributes can take before the
// framework sees them: numbers that are not whole, and null in a list, set or map. The
// framework takes the first for a defect of the provider, and an attribute would take
// the second for an empty text.

// checkWellFormed lists what is wrong with a configuration of the type that its schema has. It
// looks into no dynamic attribute, whose values mean what they mean elsewhere.
func checkWellFormed(kind tftypes.Type, config tftypes.Value) []*tfprotov6.Diagnostic {
	var c checks
	c.visit(kind, config, place{at: tftypes.NewAttributePath()})
	return c
}

// place is where a value is, for Terraform and for people. Nothing in a set has a
// path: it is named by the set.
type place struct {
	at    *tftypes.AttributePath
	name  string
	inSet bool
}

func (p place) attribute(name string) place {
	if p.name != "" {
		p.name += "."
	}
	p.name += name
	if !p.inSet {
		p.at = p.at.WithAttributeName(name)
	}
	return p
}

func (p place) item(index int) place {
	p.name += "[" + strconv.Itoa(index) + "]"
	if !p.inSet {
		p.at = p.at.WithElementKeyInt(index)
	}
	return p
}

func (p place) key(key string) place {
	p.name += "[" + strconv.Quote(key) + "]"
	if !p.inSet {
		p.at = p.at.WithElementKeyString(key)
	}
	return p
}

type checks []*tfprotov6.Diagnostic

func (c *checks) add(p place, summary, detail string) {
	*c = append(*c, &tfprotov6.Diagnostic{Severity: tfprotov6.DiagnosticSeverityError, Summary: summary, Detail: detail,
		Attribute: p.at})
}

func (c *checks) visit(kind tftypes.Type, value tftypes.Value, p place) {
	if value.IsNull() || !value.IsKnown() {
		return
	}
	switch k := kind.(type) {
	case tftypes.Object:
		var attributes map[string]tftypes.Value
		if value.As(&attributes) == nil {
			for _, name := range slices.Sorted(maps.Keys(attributes)) {
				c.visit(k.AttributeTypes[name], attributes[name], p.attribute(name))
			}
		}
	case tftypes.Map:
		var entries map[string]tftypes.Value
		if value.As(&entries) == nil {
			for _, key := range slices.Sorted(maps.Keys(entries)) {
				c.element(k.ElementType, entries[key], p.key(key), "map", "{ for key, value in VALUES : key => value "+
					"if value != null }")
			}
		}
	case tftypes.List:
		var items []tftypes.Value
		if value.As(&items) == nil {
			for i, item := range items {
				c.element(k.ElementType, item, p.item(i), "list", "[for value in VALUES : value if value != null]")
			}
		}
	case tftypes.Set:
		var items []tftypes.Value
		if value.As(&items) == nil {
			p.inSet = true
			for _, item := range items {
				c.element(k.ElementType, item, p, "set", "[for value in VALUES : value if value != null]")
			}
		}
	default:
		if kind != nil && kind.Is(tftypes.Number) {
			c.number(value, p)
		}
	}
}

// element is a value in a collection.
func (c *checks) element(kind tftypes.Type, value tftypes.Value, p place, collection, remedy string) {
	if value.IsNull() {
		which := p.name
		if collection == "set" {
			which = "A value of " + p.name
		}
		c.add(p, "Null in a "+collection, fmt.Sprintf("%s is null, and this %s takes no null. Leave the value out, "+
			"for example with %s.", which, collection, remedy))
		return
	}
	c.visit(kind, value, p)
}

// number is one that has to be whole: the provider knows no others.
func (c *checks) number(value tftypes.Value, p place) {
	var number big.Float
	if value.As(&number) != nil {
		return
	}
	text := number.Text('g', 20)
	if !number.IsInt() {
		c.add(p, "Not a whole number", fmt.Sprintf("%s is %s, but it takes a whole number. Write it without a "+
			"fraction, such as %s.", p.name, text, number.Text('f', 0)))
		return
	}
	if _, accuracy := number.Int64(); accuracy != big.Exact {
		c.add(p, "Number out of range", fmt.Sprintf("%s is %s, but it takes a whole number of 64 bits. Write a "+
			"smaller one.", p.name, text))
	}
}

// guard checks each configuration before the server gets it. A configuration with
// something wrong is not handed on.
type guard struct {
	fullServer
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

type schemas = *tfprotov6.GetProviderSchemaResponse

// check is what is wrong with a configuration. The server explains what can't be read.
func (g *guard) check(
	ctx context.Context, config *tfprotov6.DynamicValue, schema func(schemas) *tfprotov6.Schema,
) []*tfprotov6.Diagnostic {
	all, err := g.kinds(ctx)
	if err != nil || config == nil {
		return nil
	}
	s := schema(all)
	if s == nil {
		return nil
	}
	kind := s.ValueType()
	value, err := config.Unmarshal(kind)
	if err != nil {
		return nil
	}
	return checkWellFormed(kind, value)
}

// ValidateProviderConfig implements tfprotov6.ProviderServer.
func (g *guard) ValidateProviderConfig(
	ctx context.Context, req *tfprotov6.ValidateProviderConfigRequest,
) (*tfprotov6.ValidateProviderConfigResponse, error) {
	wrong := g.check(ctx, req.Config, func(s schemas) *tfprotov6.Schema { return s.Provider })
	if len(wrong) > 0 {
		return &tfprotov6.ValidateProviderConfigResponse{PreparedConfig: req.Config, Diagnostics: wrong}, nil
	}
	return g.fullServer.ValidateProviderConfig(ctx, req)
}

// ValidateResourceConfig implements tfprotov6.ResourceServer.
func (g *guard) ValidateResourceConfig(
	ctx context.Context, req *tfprotov6.ValidateResourceConfigRequest,
) (*tfprotov6.ValidateResourceConfigResponse, error) {
	wrong := g.check(ctx, req.Config, func(s schemas) *tfprotov6.Schema { return s.ResourceSchemas[req.TypeName] })
	if len(wrong) > 0 {
		return &tfprotov6.ValidateResourceConfigResponse{Diagnostics: wrong}, nil
	}
	return g.fullServer.ValidateResourceConfig(ctx, req)
}

// ValidateDataResourceConfig implements tfprotov6.DataSourceServer.
func (g *guard) ValidateDataResourceConfig(
	ctx context.Context, req *tfprotov6.ValidateDataResourceConfigRequest,
) (*tfprotov6.ValidateDataResourceConfigResponse, error) {
	wrong := g.check(ctx, req.Config, func(s schemas) *tfprotov6.Schema { return s.DataSourceSchemas[req.TypeName] })
	if len(wrong) > 0 {
		return &tfprotov6.ValidateDataResourceConfigResponse{Diagnostics: wrong}, nil
	}
	return g.fullServer.ValidateDataResourceConfig(ctx, req)
}

// ValidateEphemeralResourceConfig implements tfprotov6.EphemeralResourceServer.
func (g *guard) ValidateEphemeralResourceConfig(
	ctx context.Context, req *tfprotov6.ValidateEphemeralResourceConfigRequest,
) (*tfprotov6.ValidateEphemeralResourceConfigResponse, error) {
	wrong := g.check(ctx, req.Config, func(s schemas) *tfprotov6.Schema {
		return s.EphemeralResourceSchemas[req.TypeName]
	})
	if len(wrong) > 0 {
		return &tfprotov6.ValidateEphemeralResourceConfigResponse{Diagnostics: wrong}, nil
	}
	return g.fullServer.ValidateEphemeralResourceConfig(ctx, req)
}

// ValidateListResourceConfig implements tfprotov6.ListResourceServer.
func (g *guard) ValidateListResourceConfig(
	ctx context.Context, req *tfprotov6.ValidateListResourceConfigRequest,
) (*tfprotov6.ValidateListResourceConfigResponse, error) {
	wrong := g.check(ctx, req.Config, func(s schemas) *tfprotov6.Schema { return s.ListResourceSchemas[req.TypeName] })
	if len(wrong) > 0 {
		return &tfprotov6.ValidateListResourceConfigResponse{Diagnostics: wrong}, nil
	}
	return g.fullServer.ValidateListResourceConfig(ctx, req)
}

// ValidateActionConfig implements tfprotov6.ActionServer.
func (g *guard) ValidateActionConfig(
	ctx context.Context, req *tfprotov6.ValidateActionConfigRequest,
) (*tfprotov6.ValidateActionConfigResponse, error) {
	wrong := g.check(ctx, req.Config, func(s schemas) *tfprotov6.Schema {
		if action := s.ActionSchemas[req.ActionType]; action != nil {
			return action.Schema
		}
		return nil
	})
	if len(wrong) > 0 {
		return &tfprotov6.ValidateActionConfigResponse{Diagnostics: wrong}, nil
	}
	return g.fullServer.ValidateActionConfig(ctx, req)
}
