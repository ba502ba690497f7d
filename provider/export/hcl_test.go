package export

import (
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/muster-fleet/terraform-provider-muster/provider/embedded"
)

// What is written has to be read back as what it was.
func TestTextsSurviveBeingWritten(t *testing.T) {
	for name, in := range map[string]string{
		"plain":                     "a",
		"empty":                     "",
		"templates":                 "${a} %{ if b } $${c}",
		"quotes and backslashes":    `"a" \n \`,
		"lines":                     "a\n  b\n\nc\n",
		"lines without an end":      "a\nb",
		"lines with templates":      "${a}\n%{ for }\n$${b}\n",
		"the marker itself":         "a\nEOT\n  EOTT\nb\n",
		"carriage returns":          "a\r\nb\r\n",
		"tabs":                      "\ta\n\tb\n",
		"control characters":        "a\x01\nb\n",
		"other alphabets":           "Grüße\n東京\n",
		"only a newline":            "\n",
		"a single line with an end": "a\n",
	} {
		t.Run(name, func(t *testing.T) {
			tokens := expression(cty.ObjectVal(map[string]cty.Value{"x y": cty.StringVal(in)}))
			expr, problems := hclsyntax.ParseExpression(tokens.Bytes(), "", hcl.InitialPos)
			if problems.HasErrors() {
				t.Fatalf("%v in %s", problems, tokens.Bytes())
			}
			value, problems := expr.Value(nil)
			if problems.HasErrors() {
				t.Fatalf("%v in %s", problems, tokens.Bytes())
			}
			if got := value.GetAttr("x y"); !got.RawEquals(cty.StringVal(in)) {
				t.Errorf("got %#v, want %q, from %s", got, in, tokens.Bytes())
			}
		})
	}
}

func TestNamesOfResourcesAreValidAndUnique(t *testing.T) {
	var resources []embedded.Resource
	for _, name := range []string{"a-b", "a.b", "A_B", "1", "prod/x", "東京", "a_b_2"} {
		resources = append(resources, embedded.Resource{Type: "muster_x", Identity: map[string]string{"name": name}})
	}
	named := addressesOf(resources)
	seen := map[string]bool{}
	for at, name := range named {
		if !hclsyntax.ValidIdentifier(name) || seen[name] {
			t.Errorf("%s becomes %q", at.id, name)
		}
		seen[name] = true
	}
	if len(seen) != len(resources) || named[key{"muster_x", "a-b"}] != "a_b" || named[key{"muster_x", "1"}] != "_1" {
		t.Errorf("got %v", named)
	}
}
