// Command schema prints the provider's schema as `terraform providers schema -json`
// does, for the documents that are made from it. A Terraform prints only what it
// knows itself: list resources and actions are missing with an older one and with
// OpenTofu.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	tfjson "github.com/hashicorp/terraform-json"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"github.com/zclconf/go-cty/cty"

	"github.com/muster-fleet/terraform-provider-muster/provider"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintf(os.Stderr, "printing the provider's schema: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	server, err := provider.NewServer("docs")
	if err != nil {
		return err
	}
	schemas, err := schemasOf(ctx, server)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(schemas)
}

// providerName is the name under which the documents' generator looks for the
// provider.
const providerName = "muster"

// schemasOf asks a provider for all its schemas.
func schemasOf(ctx context.Context, server tfprotov6.ProviderServer) (*tfjson.ProviderSchemas, error) {
	schemas, err := server.GetProviderSchema(ctx, &tfprotov6.GetProviderSchemaRequest{})
	if err != nil {
		return nil, err
	}
	identities, err := server.GetResourceIdentitySchemas(ctx, &tfprotov6.GetResourceIdentitySchemasRequest{})
	if err != nil {
		return nil, err
	}
	for _, d := range append(schemas.Diagnostics, identities.Diagnostics...) {
		if d.Severity == tfprotov6.DiagnosticSeverityError {
			return nil, fmt.Errorf("%s: %s", d.Summary, d.Detail)
		}
	}
	var c converter
	result := &tfjson.ProviderSchema{
		ConfigSchema:             c.schema(schemas.Provider),
		ResourceSchemas:          each(schemas.ResourceSchemas, c.schema),
		DataSourceSchemas:        each(schemas.DataSourceSchemas, c.schema),
		EphemeralResourceSchemas: each(schemas.EphemeralResourceSchemas, c.schema),
		ListResourceSchemas:      each(schemas.ListResourceSchemas, c.schema),
		ActionSchemas: each(schemas.ActionSchemas, func(a *tfprotov6.ActionSchema) *tfjson.ActionSchema {
			return &tfjson.ActionSchema{Block: c.block(a.Schema.Block)}
		}),
		Functions:               each(schemas.Functions, c.function),
		ResourceIdentitySchemas: each(identities.IdentitySchemas, c.identity),
	}
	return &tfjson.ProviderSchemas{FormatVersion: "1.0",
		Schemas: map[string]*tfjson.ProviderSchema{providerName: result}}, c.err
}

func each[In, Out any](all map[string]In, convert func(In) Out) map[string]Out {
	converted := make(map[string]Out, len(all))
	for name, one := range all {
		converted[name] = convert(one)
	}
	return converted
}

// converter keeps the first error, so that the conversions read as the schema does.
type converter struct{ err error }

func (c *converter) schema(s *tfprotov6.Schema) *tfjson.Schema {
	return &tfjson.Schema{Version: uint64(s.Version), Block: c.block(s.Block)} //nolint:gosec // versions count from 0
}

func (c *converter) block(b *tfprotov6.SchemaBlock) *tfjson.SchemaBlock {
	converted := &tfjson.SchemaBlock{
		Attributes:      c.attributes(b.Attributes),
		Description:     b.Description,
		DescriptionKind: descriptionKind(b.DescriptionKind),
		Deprecated:      b.Deprecated,
	}
	for _, nested := range b.BlockTypes {
		if converted.NestedBlocks == nil {
			converted.NestedBlocks = map[string]*tfjson.SchemaBlockType{}
		}
		converted.NestedBlocks[nested.TypeName] = &tfjson.SchemaBlockType{
			NestingMode: nestingMode(nested.Nesting),
			Block:       c.block(nested.Block),
			MinItems:    uint64(nested.MinItems), //nolint:gosec // counts
			MaxItems:    uint64(nested.MaxItems), //nolint:gosec // counts
		}
	}
	return converted
}

func (c *converter) attributes(attributes []*tfprotov6.SchemaAttribute) map[string]*tfjson.SchemaAttribute {
	converted := map[string]*tfjson.SchemaAttribute{}
	for _, a := range attributes {
		one := &tfjson.SchemaAttribute{
			Description: a.Description, DescriptionKind: descriptionKind(a.DescriptionKind), Deprecated: a.Deprecated,
			Required: a.Required, Optional: a.Optional, Computed: a.Computed,
			Sensitive: a.Sensitive, WriteOnly: a.WriteOnly,
		}
		if a.NestedType == nil {
			one.AttributeType = c.typeOf(a.Type)
		} else {
			one.AttributeNestedType = &tfjson.SchemaNestedAttributeType{
				Attributes:  c.attributes(a.NestedType.Attributes),
				NestingMode: nestingMode(a.NestedType.Nesting),
			}
		}
		converted[a.Name] = one
	}
	return converted
}

func (c *converter) function(f *tfprotov6.Function) *tfjson.FunctionSignature {
	converted := &tfjson.FunctionSignature{
		Description: f.Description, Summary: f.Summary, DeprecationMessage: f.DeprecationMessage,
		ReturnType: c.typeOf(f.Return.Type),
	}
	for _, p := range f.Parameters {
		converted.Parameters = append(converted.Parameters, c.parameter(p))
	}
	if f.VariadicParameter != nil {
		converted.VariadicParameter = c.parameter(f.VariadicParameter)
	}
	return converted
}

func (c *converter) parameter(p *tfprotov6.FunctionParameter) *tfjson.FunctionParameter {
	return &tfjson.FunctionParameter{Name: p.Name, Description: p.Description, IsNullable: p.AllowNullValue,
		Type: c.typeOf(p.Type)}
}

func (c *converter) identity(s *tfprotov6.ResourceIdentitySchema) *tfjson.IdentitySchema {
	converted := &tfjson.IdentitySchema{Version: uint64(s.Version),
		Attributes: map[string]*tfjson.IdentityAttribute{}} //nolint:gosec // versions count from 0
	for _, a := range s.IdentityAttributes {
		converted.Attributes[a.Name] = &tfjson.IdentityAttribute{
			IdentityType: c.typeOf(a.Type), Description: a.Description,
			RequiredForImport: a.RequiredForImport, OptionalForImport: a.OptionalForImport,
		}
	}
	return converted
}

// typeOf converts a type by the notation that both libraries have for it.
func (c *converter) typeOf(t tftypes.Type) cty.Type {
	converted := cty.DynamicPseudoType
	text, err := t.MarshalJSON() //nolint:staticcheck // the protocol's own notation, which has no other writer
	if err == nil {
		err = json.Unmarshal(text, &converted)
	}
	c.err = errors.Join(c.err, err)
	return converted
}

func descriptionKind(kind tfprotov6.StringKind) tfjson.SchemaDescriptionKind {
	if kind == tfprotov6.StringKindMarkdown {
		return tfjson.SchemaDescriptionKindMarkdown
	}
	return tfjson.SchemaDescriptionKindPlain
}

// nestingMode is a mode of the protocol, for which both have the same words.
func nestingMode(mode fmt.Stringer) tfjson.SchemaNestingMode {
	return tfjson.SchemaNestingMode(strings.ToLower(mode.String()))
}
