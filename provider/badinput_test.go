package provider_test

import (
	"context"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
)

// block is a part of a schema with attributes: the whole, or a nested object.
type block struct {
	attributes []*tfprotov6.SchemaAttribute
	blocks     []*tfprotov6.SchemaNestedBlock
}

// leaf is an attribute that a configuration can set, wherever it is in the schema.
type leaf struct {
	// names lead to it, through nested attributes and blocks.
	names []string
	*tfprotov6.SchemaAttribute
	// put makes the configuration in which it has a value, and nothing else is set.
	put func(value tftypes.Value) tftypes.Value
}

func (l leaf) String() string { return strings.Join(l.names, ".") }

// empty is an object without values.
func empty(object tftypes.Object) map[string]tftypes.Value {
	values := map[string]tftypes.Value{}
	for name, kind := range object.AttributeTypes {
		values[name] = tftypes.NewValue(kind, nil)
	}
	return values
}

// leaves are the attributes of a block. kind is its type, and put puts it into the
// whole.
func leaves(b block, kind tftypes.Object, names []string, put func(tftypes.Value) tftypes.Value) (all []leaf) {
	with := func(name string) func(tftypes.Value) tftypes.Value {
		return func(value tftypes.Value) tftypes.Value {
			values := empty(kind)
			values[name] = value
			return put(tftypes.NewValue(kind, values))
		}
	}
	for _, a := range b.attributes {
		if !a.Optional && !a.Required {
			continue
		}
		at := append(slices.Clone(names), a.Name)
		all = append(all, leaf{at, a, with(a.Name)})
		if a.NestedType == nil {
			continue
		}
		inner := block{attributes: a.NestedType.Attributes}
		all = append(all, leaves(inner, elementOf(a.ValueType()), at, wrapped(a.ValueType(), with(a.Name)))...)
	}
	for _, n := range b.blocks {
		at := append(slices.Clone(names), n.TypeName)
		inner := block{n.Block.Attributes, n.Block.BlockTypes}
		all = append(all, leaves(inner, elementOf(kind.AttributeTypes[n.TypeName]), at, wrapped(kind.AttributeTypes[n.TypeName], with(n.TypeName)))...)
	}
	return all
}

// elementOf is the object in a nested attribute or block.
func elementOf(kind tftypes.Type) tftypes.Object {
	switch k := kind.(type) {
	case tftypes.List:
		return k.ElementType.(tftypes.Object)
	case tftypes.Set:
		return k.ElementType.(tftypes.Object)
	case tftypes.Map:
		return k.ElementType.(tftypes.Object)
	}
	return kind.(tftypes.Object)
}

// wrapped makes an object the one element of a collection, where it is in one.
func wrapped(kind tftypes.Type, put func(tftypes.Value) tftypes.Value) func(tftypes.Value) tftypes.Value {
	return func(object tftypes.Value) tftypes.Value {
		switch kind.(type) {
		case tftypes.List, tftypes.Set:
			object = tftypes.NewValue(kind, []tftypes.Value{object})
		case tftypes.Map:
			object = tftypes.NewValue(kind, map[string]tftypes.Value{"x": object})
		}
		return put(object)
	}
}

// configurable is something that users write configuration of.
type configurable struct {
	name     string
	schema   *tfprotov6.SchemaBlock
	validate func(context.Context, *tfprotov6.DynamicValue) ([]*tfprotov6.Diagnostic, error)
}

// configurables are all of the provider's: resources, data sources, ephemeral
// resources, lists, actions, and its own block.
func configurables(t *testing.T) []configurable {
	t.Helper()
	server := acctest.ConfiguredServer(t, "http://127.0.0.1:1")
	schemas, err := server.GetProviderSchema(t.Context(), &tfprotov6.GetProviderSchemaRequest{})
	testkit.Must(t, err)
	all := []configurable{{"provider", schemas.Provider.Block, func(ctx context.Context, config *tfprotov6.DynamicValue) ([]*tfprotov6.Diagnostic, error) {
		resp, err := server.ValidateProviderConfig(ctx, &tfprotov6.ValidateProviderConfigRequest{Config: config})
		if err != nil {
			return nil, err
		}
		return resp.Diagnostics, nil
	}}}
	for _, name := range slices.Sorted(maps.Keys(schemas.ResourceSchemas)) {
		all = append(all, configurable{"resource " + name, schemas.ResourceSchemas[name].Block, func(ctx context.Context, config *tfprotov6.DynamicValue) ([]*tfprotov6.Diagnostic, error) {
			resp, err := server.ValidateResourceConfig(ctx, &tfprotov6.ValidateResourceConfigRequest{
				TypeName: name, Config: config, ClientCapabilities: &tfprotov6.ValidateResourceConfigClientCapabilities{WriteOnlyAttributesAllowed: true},
			})
			if err != nil {
				return nil, err
			}
			return resp.Diagnostics, nil
		}})
	}
	for _, name := range slices.Sorted(maps.Keys(schemas.DataSourceSchemas)) {
		all = append(all, configurable{"data " + name, schemas.DataSourceSchemas[name].Block, func(ctx context.Context, config *tfprotov6.DynamicValue) ([]*tfprotov6.Diagnostic, error) {
			resp, err := server.ValidateDataResourceConfig(ctx, &tfprotov6.ValidateDataResourceConfigRequest{TypeName: name, Config: config})
			if err != nil {
				return nil, err
			}
			return resp.Diagnostics, nil
		}})
	}
	for _, name := range slices.Sorted(maps.Keys(schemas.EphemeralResourceSchemas)) {
		all = append(all, configurable{"ephemeral " + name, schemas.EphemeralResourceSchemas[name].Block, func(ctx context.Context, config *tfprotov6.DynamicValue) ([]*tfprotov6.Diagnostic, error) {
			resp, err := server.ValidateEphemeralResourceConfig(ctx, &tfprotov6.ValidateEphemeralResourceConfigRequest{TypeName: name, Config: config})
			if err != nil {
				return nil, err
			}
			return resp.Diagnostics, nil
		}})
	}
	for _, name := range slices.Sorted(maps.Keys(schemas.ListResourceSchemas)) {
		all = append(all, configurable{"list " + name, schemas.ListResourceSchemas[name].Block, func(ctx context.Context, config *tfprotov6.DynamicValue) ([]*tfprotov6.Diagnostic, error) {
			resp, err := server.(tfprotov6.ListResourceServer).ValidateListResourceConfig(ctx, &tfprotov6.ValidateListResourceConfigRequest{TypeName: name, Config: config})
			if err != nil {
				return nil, err
			}
			return resp.Diagnostics, nil
		}})
	}
	for _, name := range slices.Sorted(maps.Keys(schemas.ActionSchemas)) {
		all = append(all, configurable{"action " + name, schemas.ActionSchemas[name].Schema.Block, func(ctx context.Context, config *tfprotov6.DynamicValue) ([]*tfprotov6.Diagnostic, error) {
			resp, err := server.(tfprotov6.ActionServer).ValidateActionConfig(ctx, &tfprotov6.ValidateActionConfigRequest{ActionType: name, Config: config})
			if err != nil {
				return nil, err
			}
			return resp.Diagnostics, nil
		}})
	}
	return all
}

// each runs a test for all attributes that a configuration can set.
func each(t *testing.T, test func(t *testing.T, l leaf, validate func(value tftypes.Value) []*tfprotov6.Diagnostic)) {
	t.Helper()
	for _, c := range configurables(t) {
		kind := c.schema.ValueType().(tftypes.Object)
		for _, l := range leaves(block{c.schema.Attributes, c.schema.BlockTypes}, kind, nil, func(v tftypes.Value) tftypes.Value { return v }) {
			t.Run(c.name+" "+l.String(), func(t *testing.T) {
				test(t, l, func(value tftypes.Value) []*tfprotov6.Diagnostic {
					config, err := tfprotov6.NewDynamicValue(kind, l.put(value))
					testkit.Must(t, err)
					problems, err := c.validate(t.Context(), &config)
					testkit.Must(t, err)
					problems = slices.DeleteFunc(problems, func(p *tfprotov6.Diagnostic) bool {
						return strings.HasPrefix(p.Summary, "Missing Configuration") // which Terraform itself says before
					})
					for _, p := range problems {
						if leaked := ofTheFramework.FindString(p.Summary + " " + p.Detail); leaked != "" {
							t.Errorf("the text is not for users: %q in %s: %s", leaked, p.Summary, p.Detail)
						}
					}
					return problems
				})
			})
		}
	}
}

// ofTheFramework is in texts that call a mistake of the configuration a defect of the
// provider, or show how Go prints a value.
var ofTheFramework = regexp.MustCompile(`(?i)report (this|the following)|error in the provider|provider developer|%!|tftypes\.|\[Value\(|Value\(\{|<null>|basetypes|panic`)

// says fails the test unless one of the problems has all texts.
func says(t *testing.T, problems []*tfprotov6.Diagnostic, texts ...string) {
	t.Helper()
	var all []string
	for _, p := range problems {
		text := p.Summary + ": " + p.Detail
		if !slices.ContainsFunc(texts, func(want string) bool { return !strings.Contains(text, want) }) {
			return
		}
		all = append(all, text)
	}
	t.Errorf("nothing says %q, but: %s", texts, strings.Join(all, "\n"))
}

// Terraform takes 1.5 for a number, and the framework takes it for a defect of the
// provider where a whole number is wanted.
func TestNumbersThatAreNotWhole(t *testing.T) {
	tested := 0
	each(t, func(t *testing.T, l leaf, validate func(tftypes.Value) []*tfprotov6.Diagnostic) {
		number := func(value any) tftypes.Value {
			of := tftypes.NewValue(tftypes.Number, value)
			if m, is := l.ValueType().(tftypes.Map); is {
				return tftypes.NewValue(m, map[string]tftypes.Value{"x": of})
			}
			return of
		}
		if m, is := l.ValueType().(tftypes.Map); !l.ValueType().Is(tftypes.Number) && (!is || !m.ElementType.Is(tftypes.Number)) {
			return
		}
		tested++
		says(t, validate(number(big.NewFloat(1.5))), l.Name, " is 1.5, but it takes a whole number", "Write it without a fraction")
		says(t, validate(number(new(big.Float).SetFloat64(1e30))), l.Name, "whole number of 64 bits")
		validate(number(-1000000))
		validate(number(0))
	})
	if tested < 30 {
		t.Errorf("only %d attributes are numbers", tested)
	}
}

// Null in a collection would count as an empty text, or as an object without anything.
func TestNullInCollections(t *testing.T) {
	tested := 0
	each(t, func(t *testing.T, l leaf, validate func(tftypes.Value) []*tfprotov6.Diagnostic) {
		of := elementType(l.ValueType())
		if of == nil {
			return
		}
		tested++
		says(t, validate(collection(l.ValueType(), tftypes.NewValue(of, nil))), "Null in a ", l.Name, " is null", "Leave the value out, for example with ")
		validate(collection(l.ValueType()))
		if of.Is(tftypes.String) { // Their texts are for users, too.
			validate(collection(l.ValueType(), tftypes.NewValue(of, "")))
			validate(collection(l.ValueType(), tftypes.NewValue(of, "NOT A NAME!")))
		}
	})
	if tested < 100 {
		t.Errorf("only %d attributes are collections", tested)
	}
}

// elementType is that of a collection; nil for other types.
func elementType(kind tftypes.Type) tftypes.Type {
	switch k := kind.(type) {
	case tftypes.List:
		return k.ElementType
	case tftypes.Set:
		return k.ElementType
	case tftypes.Map:
		return k.ElementType
	}
	return nil
}

// collection has these values; those of a map are named x.
func collection(kind tftypes.Type, values ...tftypes.Value) tftypes.Value {
	if !kind.Is(tftypes.Map{}) {
		return tftypes.NewValue(kind, append([]tftypes.Value{}, values...))
	}
	entries := map[string]tftypes.Value{}
	for _, value := range values {
		entries["x"] = value
	}
	return tftypes.NewValue(kind, entries)
}

// A text that has a form is checked for it. Those that may be anything are listed here:
// an attribute that is not, and takes everything, needs a validator.
func TestTextsHaveAForm(t *testing.T) {
	free := freeTexts()
	each(t, func(t *testing.T, l leaf, validate func(tftypes.Value) []*tfprotov6.Diagnostic) {
		if !l.ValueType().Is(tftypes.String) {
			return
		}
		refused := false
		for _, text := range []string{"", "NOT A NAME!", "-", strings.Repeat("a", 2000), "\x00"} {
			for _, p := range validate(tftypes.NewValue(tftypes.String, text)) {
				about := p.Attribute != nil && strings.Contains(p.Attribute.String(), `AttributeName("`+l.Name+`")`)
				refused = refused || (about) || strings.Contains(p.Detail, l.Name)
			}
		}
		_, name, _ := strings.Cut(t.Name(), "/")
		listed := free[name] != ""
		switch {
		case !refused && !listed:
			t.Errorf("it takes every text: give it a validator, or list %q in freeTexts", name)
		case refused && listed:
			t.Errorf("%q is listed in freeTexts, and refuses a text", name)
		}
		delete(free, name)
	})
	for name := range free {
		t.Errorf("%q is in freeTexts, and is no attribute", name)
	}
}

// freeTexts are the attributes that take any text, with why. Of some only the checks of
// the whole object are not reached here, as the test sets nothing else.
func freeTexts() map[string]string {
	const (
		named    = "a name in a kubeconfig, which may be any text"
		secret   = "nobody knows its form"
		together = "it is checked once its object is whole: TestAttributesThatExcludeEachOther, " +
			"TestAccKlusterletBadInput, TestGatesAreChecked"
	)
	free := map[string]string{
		"resource_muster_bootstrap_token_description": "for people",
		"data_muster_placement_decisions_group_name":  "empty means the clusters of no group",
	}
	for _, name := range []string{"config_context", "config_context_auth_info", "config_context_cluster", "context"} {
		free["provider_"+name] = named
	}
	for _, kind := range []string{"addon", "manifest_work_replica_set"} {
		for _, name := range []string{"from", "to", "time_zone"} {
			free["resource_muster_"+kind+"_gates.window."+name] = together
		}
	}
	for _, name := range []string{"impersonate.uid", "tls_server_name", "token"} {
		free["provider_"+name] = secret
	}
	for _, name := range []string{"cluster_ca_certificate", "exec.api_version", "exec.command", "impersonate.uid", "impersonate.user", "proxy_url", "tls_server_name", "token"} {
		free["resource_muster_klusterlet_cluster_connection."+name] = together
	}
	return free
}
