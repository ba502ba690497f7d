package docs

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

const beginInputs, endInputs = "<!-- inputs and outputs: written by make generate -->\n", "<!-- end of inputs and outputs -->\n"

// TestModules compares the tables in the README of each module with its variables and
// outputs.
func TestModules(t *testing.T) {
	folders, err := filepath.Glob(filepath.Join(root, "examples/modules/*"))
	if err != nil || len(folders) < 5 {
		t.Fatalf("the modules are %v: %v", folders, err)
	}
	for _, folder := range folders {
		name, err := filepath.Rel(root, filepath.Join(folder, "README.md"))
		if err != nil {
			t.Fatal(err)
		}
		document := read(t, name)
		before, rest, found := strings.Cut(document, beginInputs)
		_, after, closed := strings.Cut(rest, endInputs)
		if !found || !closed {
			t.Errorf("%s lacks %q or %q", name, beginInputs, endInputs)
			continue
		}
		wanted := before + beginInputs + inputsAndOutputs(t, folder) + endInputs + after
		if wanted == document {
			continue
		}
		if !*update {
			t.Errorf("the tables in %s are not those of its variables and outputs: run make generate", name)
			continue
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(wanted), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// inputsAndOutputs are both tables, and below them what has no place in a cell.
func inputsAndOutputs(t *testing.T, folder string) string {
	t.Helper()
	inputs, outputs, details := "| input | type | default | |\n|---|---|---|---|\n", "| output | |\n|---|---|\n", ""
	for _, block := range blocksOf(t, folder) {
		name := block.Labels[0]
		short, more, _ := strings.Cut(strings.TrimSpace(block.text(t, "description")), "\n\n")
		if more != "" {
			details += fmt.Sprintf("\n`%s`:\n\n%s\n", name, strings.TrimSpace(more))
		}
		switch block.Type {
		case "variable":
			fallback := "required"
			if source := block.source("default"); source != "" {
				fallback = "`" + source + "`"
			}
			inputs += fmt.Sprintf("| `%s` | `%s` | %s | %s |\n", name, block.source("type"), fallback, cell(short))
		case "output":
			outputs += fmt.Sprintf("| `%s` | %s |\n", name, cell(short))
		}
	}
	return inputs + "\n" + outputs + details
}

// cell is a text as it can stand in a table.
func cell(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", "\\|")
}

// block is a variable or an output, with the text of its file.
type block struct {
	*hclsyntax.Block
	file []byte
}

// source is the expression of an argument as it is written, on one line.
func (b block) source(argument string) string {
	attribute, ok := b.Body.Attributes[argument]
	if !ok {
		return ""
	}
	return strings.Join(strings.Fields(string(attribute.Expr.Range().SliceBytes(b.file))), " ")
}

// text is the value of an argument that is a text.
func (b block) text(t *testing.T, argument string) string {
	t.Helper()
	attribute, ok := b.Body.Attributes[argument]
	if !ok {
		t.Fatalf("%s: %s %s has no %s", b.TypeRange.Filename, b.Type, b.Labels[0], argument)
	}
	value, problems := attribute.Expr.Value(nil)
	if problems.HasErrors() || value.Type() != cty.String {
		t.Fatalf("%s: %v", attribute.SrcRange, problems)
	}
	return value.AsString()
}

// blocksOf are the variables and outputs of a module: those without a default first,
// and else in the order of the files.
func blocksOf(t *testing.T, folder string) (all []block) {
	t.Helper()
	parser := hclparse.NewParser()
	for _, name := range []string{"variables.tf", "outputs.tf"} {
		file, problems := parser.ParseHCLFile(filepath.Join(folder, name))
		if problems.HasErrors() {
			t.Fatal(problems)
		}
		body, ok := file.Body.(*hclsyntax.Body)
		if !ok {
			t.Fatalf("%s is not in the native syntax", name)
		}
		for _, b := range body.Blocks {
			all = append(all, block{b, file.Bytes})
		}
	}
	slices.SortStableFunc(all, func(a, b block) int { return cmp.Compare(rank(a), rank(b)) })
	return all
}

func rank(b block) int {
	if b.Type == "variable" && b.Body.Attributes["default"] == nil {
		return 0
	}
	return 1
}
