package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// described is a provider that has only schemas.
type described struct {
	tfprotov6.ProviderServer
	schemas    tfprotov6.GetProviderSchemaResponse
	identities tfprotov6.GetResourceIdentitySchemasResponse
}

func (d described) GetProviderSchema(context.Context, *tfprotov6.GetProviderSchemaRequest) (*tfprotov6.GetProviderSchemaResponse, error) {
	return &d.schemas, nil
}

func (d described) GetResourceIdentitySchemas(context.Context, *tfprotov6.GetResourceIdentitySchemasRequest) (*tfprotov6.GetResourceIdentitySchemasResponse, error) {
	return &d.identities, nil
}

// The texts are those that Terraform 1.16 prints.
func TestSchemasAreInTerraformsNotation(t *testing.T) {
	block := func(attributes ...*tfprotov6.SchemaAttribute) *tfprotov6.Schema {
		return &tfprotov6.Schema{Version: 1, Block: &tfprotov6.SchemaBlock{Attributes: attributes, Description: "Words.", DescriptionKind: tfprotov6.StringKindMarkdown}}
	}
	server := described{
		schemas: tfprotov6.GetProviderSchemaResponse{
			Provider: block(),
			ResourceSchemas: map[string]*tfprotov6.Schema{"muster_a": block(
				&tfprotov6.SchemaAttribute{Name: "secret", Type: tftypes.String, Optional: true, Sensitive: true, WriteOnly: true, Deprecated: true},
				&tfprotov6.SchemaAttribute{Name: "any", Type: tftypes.DynamicPseudoType, Computed: true},
				&tfprotov6.SchemaAttribute{Name: "rules", Required: true, NestedType: &tfprotov6.SchemaObject{
					Nesting:    tfprotov6.SchemaObjectNestingModeMap,
					Attributes: []*tfprotov6.SchemaAttribute{{Name: "weights", Optional: true, Type: tftypes.List{ElementType: tftypes.Object{AttributeTypes: map[string]tftypes.Type{"n": tftypes.Number}}}}},
				}},
			)},
			EphemeralResourceSchemas: map[string]*tfprotov6.Schema{"muster_e": {Block: &tfprotov6.SchemaBlock{BlockTypes: []*tfprotov6.SchemaNestedBlock{
				{TypeName: "b", Nesting: tfprotov6.SchemaNestedBlockNestingModeSet, MinItems: 1, MaxItems: 2, Block: &tfprotov6.SchemaBlock{}},
			}}}},
			ListResourceSchemas: map[string]*tfprotov6.Schema{"muster_a": block()},
			ActionSchemas:       map[string]*tfprotov6.ActionSchema{"muster_act": {Schema: block()}},
			Functions: map[string]*tfprotov6.Function{"f": {
				Summary: "Short", Description: "Long.", Return: &tfprotov6.FunctionReturn{Type: tftypes.Set{ElementType: tftypes.Bool}},
				Parameters:        []*tfprotov6.FunctionParameter{{Name: "p", AllowNullValue: true, Type: tftypes.Map{ElementType: tftypes.String}}},
				VariadicParameter: &tfprotov6.FunctionParameter{Name: "more", Type: tftypes.DynamicPseudoType},
			}},
		},
		identities: tfprotov6.GetResourceIdentitySchemasResponse{IdentitySchemas: map[string]*tfprotov6.ResourceIdentitySchema{
			"muster_a": {IdentityAttributes: []*tfprotov6.ResourceIdentitySchemaAttribute{{Name: "name", Type: tftypes.String, RequiredForImport: true}}},
		}},
	}
	schemas, err := schemasOf(t.Context(), server)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(schemas)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"format_version":"1.0"`,
		`"secret":{"type":"string","description_kind":"plain","deprecated":true,"optional":true,"sensitive":true,"write_only":true}`,
		`"any":{"type":"dynamic","description_kind":"plain","computed":true}`,
		`"rules":{"nested_type":{"attributes":{"weights":{"type":["list",["object",{"n":"number"}]],"description_kind":"plain","optional":true}},"nesting_mode":"map"},"description_kind":"plain","required":true}`,
		`"block_types":{"b":{"nesting_mode":"set","block":{"description_kind":"plain"},"min_items":1,"max_items":2}}`,
		`"list_resource_schemas":{"muster_a":{"version":1,"block":{"description":"Words.","description_kind":"markdown"}}}`,
		`"action_schemas":{"muster_act":{"block":{"description":"Words.","description_kind":"markdown"}}}`,
		`"functions":{"f":{"description":"Long.","summary":"Short","return_type":["set","bool"],"parameters":[{"name":"p","is_nullable":true,"type":["map","string"]}],"variadic_parameter":{"name":"more","type":"dynamic"}}}`,
		`"resource_identity_schemas":{"muster_a":{"version":0,"attributes":{"name":{"type":"string","required_for_import":true}}}}`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the schema lacks %s:\n%s", want, text)
		}
	}
}

func TestAProviderThatFailsHasNoSchema(t *testing.T) {
	server := described{schemas: tfprotov6.GetProviderSchemaResponse{
		Diagnostics: []*tfprotov6.Diagnostic{{Severity: tfprotov6.DiagnosticSeverityError, Summary: "Broken", Detail: "Why."}},
	}}
	if _, err := schemasOf(t.Context(), server); err == nil || !strings.Contains(err.Error(), "Broken: Why.") {
		t.Errorf("got %v", err)
	}
}
