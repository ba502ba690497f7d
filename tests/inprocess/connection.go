package inprocess

import (
	"context"
	"fmt"
	"sync"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	ctyjson "github.com/zclconf/go-cty/cty/json"
	"github.com/zclconf/go-cty/cty/msgpack"
)

// connection is a provider that one operation has started for itself.
type connection struct {
	*description
	server tfprotov6.ProviderServer
}

// description is what a provider says of itself. All of its servers say the same, so
// that it is asked once.
type description struct {
	name       string
	provider   *schema
	functions  map[string]*tfprotov6.Function
	identities map[string]cty.Type
	raw        *tfprotov6.GetProviderSchemaResponse

	mu      sync.Mutex
	schemas map[*tfprotov6.Schema]*schema
}

// connect starts a provider.
func (tf *Terraform) connect(ctx context.Context, name string, start Factory) (*connection, error) {
	server, err := start()
	if err != nil {
		return nil, fmt.Errorf("start the provider %s: %w", name, err)
	}
	tf.mu.Lock()
	defer tf.mu.Unlock()
	if tf.descriptions[name] == nil {
		d, err := describe(ctx, name, server)
		if err != nil {
			return nil, err
		}
		if tf.descriptions == nil {
			tf.descriptions = map[string]*description{}
		}
		tf.descriptions[name] = d
	}
	return &connection{description: tf.descriptions[name], server: server}, nil
}

func describe(ctx context.Context, name string, server tfprotov6.ProviderServer) (*description, error) {
	schemas, err := server.GetProviderSchema(ctx, &tfprotov6.GetProviderSchemaRequest{})
	if err != nil {
		return nil, fmt.Errorf("read the schema of the provider %s: %w", name, err)
	}
	for _, d := range schemas.Diagnostics {
		if d.Severity == tfprotov6.DiagnosticSeverityError {
			return nil, fmt.Errorf("read the schema of the provider %s: %s: %s", name, d.Summary, d.Detail)
		}
	}
	d := &description{
		name: name, functions: schemas.Functions, identities: map[string]cty.Type{},
		raw: schemas, schemas: map[*tfprotov6.Schema]*schema{},
	}
	d.provider = d.schemaOf(schemas.Provider)
	identities, err := server.GetResourceIdentitySchemas(ctx, &tfprotov6.GetResourceIdentitySchemasRequest{})
	if err != nil {
		return nil, fmt.Errorf("read the identities of the provider %s: %w", name, err)
	}
	for kind, s := range identities.IdentitySchemas {
		d.identities[kind] = ctyType(s.ValueType())
	}
	return d, nil
}

// resource is the schema of a resource; nil if there is none of its type.
func (d *description) resource(kind string) *schema { return d.schemaOf(d.raw.ResourceSchemas[kind]) }

// data is the schema of a data source; nil if there is none of its type.
func (d *description) data(kind string) *schema { return d.schemaOf(d.raw.DataSourceSchemas[kind]) }

func (d *description) schemaOf(raw *tfprotov6.Schema) *schema {
	if raw == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.schemas[raw] == nil {
		d.schemas[raw] = newSchema(raw)
	}
	return d.schemas[raw]
}

func (c *connection) schema(r *resourceBlock) *schema {
	if r.data {
		return c.data(r.kind)
	}
	return c.resource(r.kind)
}

// encode puts a value on the wire. Marks are left out.
func encode(value cty.Value, kind cty.Type) (*tfprotov6.DynamicValue, error) {
	value, _ = value.UnmarkDeep()
	raw, err := msgpack.Marshal(value, kind)
	if err != nil {
		return nil, fmt.Errorf("encode a value: %w", err)
	}
	return &tfprotov6.DynamicValue{MsgPack: raw}, nil
}

func decode(in *tfprotov6.DynamicValue, kind cty.Type) (cty.Value, error) {
	switch {
	case in == nil:
		return cty.NullVal(kind), nil
	case len(in.MsgPack) > 0:
		return msgpack.Unmarshal(in.MsgPack, kind)
	case len(in.JSON) > 0:
		return ctyjson.Unmarshal(in.JSON, kind)
	}
	return cty.NullVal(kind), nil
}

// providerFunctions are the provider's functions, as a configuration calls them.
func (c *connection) providerFunctions(ctx context.Context) map[string]function.Function {
	found := map[string]function.Function{}
	for name, f := range c.functions {
		found["provider::"+c.name+"::"+name] = c.function(ctx, name, f)
	}
	return found
}

func (c *connection) function(ctx context.Context, name string, f *tfprotov6.Function) function.Function {
	parameter := func(p *tfprotov6.FunctionParameter) function.Parameter {
		return function.Parameter{
			Name: p.Name, Type: ctyType(p.Type), AllowNull: p.AllowNullValue, AllowUnknown: p.AllowUnknownValues,
		}
	}
	spec := &function.Spec{Type: function.StaticReturnType(ctyType(f.Return.Type))}
	for _, p := range f.Parameters {
		spec.Params = append(spec.Params, parameter(p))
	}
	if f.VariadicParameter != nil {
		variadic := parameter(f.VariadicParameter)
		spec.VarParam = &variadic
	}
	spec.Impl = func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		req := &tfprotov6.CallFunctionRequest{Name: name}
		for i, arg := range args {
			kind := cty.DynamicPseudoType
			if i < len(spec.Params) {
				kind = spec.Params[i].Type
			} else if spec.VarParam != nil {
				kind = spec.VarParam.Type
			}
			encoded, err := encode(arg, kind)
			if err != nil {
				return cty.NilVal, err
			}
			req.Arguments = append(req.Arguments, encoded)
		}
		resp, err := c.server.CallFunction(ctx, req)
		if err != nil {
			return cty.NilVal, err
		}
		if resp.Error != nil {
			if resp.Error.FunctionArgument != nil {
				return cty.NilVal, function.NewArgErrorf(int(*resp.Error.FunctionArgument), "%s", resp.Error.Text)
			}
			return cty.NilVal, fmt.Errorf("%s", resp.Error.Text)
		}
		return decode(resp.Result, ctyType(f.Return.Type))
	}
	return function.New(spec)
}
