package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	tfjson "github.com/hashicorp/terraform-json"
	"github.com/zclconf/go-cty/cty"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/provider"
)

// update is what make generate sets.
var update = flag.Bool("update", false, "write the provider's schema to testdata/schema.txt")

// The recorded schema has a line for each resource, data source, function, action,
// attribute and parameter. A change shows which of them it is about.
func TestSchemaIsAsRecorded(t *testing.T) {
	server, err := provider.NewServer("test")
	testkit.Must(t, err)
	schemas, err := schemasOf(t.Context(), server)
	testkit.Must(t, err)
	is := describe(t, schemas)
	golden := filepath.Join("testdata", "schema.txt")
	if *update {
		testkit.Must(t, os.MkdirAll("testdata", 0o755))
		testkit.Must(t, os.WriteFile(golden, []byte(strings.Join(is, "\n")+"\n"), 0o644))
		return
	}
	text, err := os.ReadFile(golden)
	testkit.Must(t, err)
	was := strings.Split(strings.TrimSpace(string(text)), "\n")
	if changed := difference(was, is); len(changed) > 0 {
		t.Errorf("the schema is another: if it is to be so, run make generate\n%s", strings.Join(changed, "\n"))
	}
}

func TestAChangeOfTheSchemaNamesTheAttribute(t *testing.T) {
	schema := func(required bool, description string) *tfjson.ProviderSchemas {
		return &tfjson.ProviderSchemas{Schemas: map[string]*tfjson.ProviderSchema{providerName: {
			ResourceSchemas: map[string]*tfjson.Schema{"muster_a": {Block: &tfjson.SchemaBlock{
				Attributes: map[string]*tfjson.SchemaAttribute{"rules": {Required: true,
					AttributeNestedType: &tfjson.SchemaNestedAttributeType{NestingMode: tfjson.SchemaNestingModeList,
						Attributes: map[string]*tfjson.SchemaAttribute{
							"verb": {AttributeType: cty.String, Required: required, Description: description}}},
				}},
			}}},
			Functions: map[string]*tfjson.FunctionSignature{"f": {
				Parameters: []*tfjson.FunctionParameter{{Name: "p", Type: cty.Bool, Description: description}},
				ReturnType: cty.List(cty.String)}},
		}}}
	}
	was := describe(t, schema(true, "A verb."))
	for name, test := range map[string]struct {
		is   *tfjson.ProviderSchemas
		want []string
	}{
		"nothing": {schema(true, "A verb."), nil},
		"a flag": {schema(false, "A verb."), []string{
			`- resource muster_a.rules.verb: description=debe0e0f required type="string"`,
			`+ resource muster_a.rules.verb: description=debe0e0f type="string"`,
		}},
		"a description": {schema(true, "Verbs."), []string{
			`- function f.1: description=debe0e0f name="p" type="bool"`,
			`- resource muster_a.rules.verb: description=debe0e0f required type="string"`,
			`+ function f.1: description=6866e2d7 name="p" type="bool"`,
			`+ resource muster_a.rules.verb: description=6866e2d7 required type="string"`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := difference(was, describe(t, test.is)); !slices.Equal(got, test.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(test.want, "\n"))
			}
		})
	}
}

// describe is a sorted line for each part of a provider, which starts with its path.
func describe(t *testing.T, schemas *tfjson.ProviderSchemas) []string {
	t.Helper()
	text, err := json.Marshal(schemas.Schemas[providerName])
	testkit.Must(t, err)
	var kinds map[string]map[string]any
	testkit.Must(t, json.Unmarshal(text, &kinds))
	lines := parts("provider", kinds["provider"])
	delete(kinds, "provider")
	for kind, all := range kinds {
		kind = strings.ReplaceAll(strings.TrimSuffix(strings.TrimSuffix(kind, "_schemas"), "s"), "_", " ")
		for name, one := range all {
			lines = append(lines, parts(kind+" "+name, one.(map[string]any))...)
		}
	}
	slices.Sort(lines)
	return lines
}

// parts is a line for a part of a schema, with its flags and a checksum of its
// description, and lines for the parts in it.
func parts(path string, part map[string]any) (lines []string) {
	for _, key := range []string{"block", "nested_type"} {
		if inside, ok := part[key].(map[string]any); ok {
			maps.Copy(part, inside)
			delete(part, key)
		}
	}
	delete(part, "description_kind") // all but those of timeouts are Markdown
	var facts []string
	for _, key := range slices.Sorted(maps.Keys(part)) {
		switch value := part[key].(type) {
		case map[string]any: // attributes, blocks, a function's last parameter
			if key == "variadic_parameter" {
				value = map[string]any{"...": value}
			}
			for name, one := range value {
				lines = append(lines, parts(path+"."+name, one.(map[string]any))...)
			}
		case []any:
			if key != "parameters" {
				facts = append(facts, fact(key, value)) // a type
				continue
			}
			for i, one := range value {
				lines = append(lines, parts(fmt.Sprintf("%s.%d", path, i+1), one.(map[string]any))...)
			}
		default:
			facts = append(facts, fact(key, value))
		}
	}
	return append(lines, path+": "+strings.Join(facts, " "))
}

// fact is a key with its value, the checksum of a text, or a flag that is set.
func fact(key string, value any) string {
	switch key {
	case "description", "summary", "deprecation_message":
		return fmt.Sprintf("%s=%08x", key, crc32.ChecksumIEEE([]byte(value.(string))))
	}
	if value == true {
		return key
	}
	text, err := json.Marshal(value)
	if err != nil {
		return key + ": " + err.Error()
	}
	return key + "=" + string(text)
}

// difference is what was and no longer is, and then what is new.
func difference(was, is []string) (changed []string) {
	for _, line := range was {
		if !slices.Contains(is, line) {
			changed = append(changed, "- "+line)
		}
	}
	for _, line := range is {
		if !slices.Contains(was, line) {
			changed = append(changed, "+ "+line)
		}
	}
	return changed
}
