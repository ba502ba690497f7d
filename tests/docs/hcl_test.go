package docs

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// configuration is a block of Terraform's language in a document.
var configuration = regexp.MustCompile("(?m)^([ \t]*)```(?:hcl|terraform|tf)[^\n]*\n((?s:.*?))^[ \t]*```[ \t]*$")

// TestConfiguration looks for every block of Terraform's language in the documents:
// each has to be an excerpt of a file in examples, as those are validated and applied
// by tests. Guides include such a file with {{ tffile "examples/…" }}.
func TestConfiguration(t *testing.T) {
	files := exampleFiles(t)
	blocks := 0
	for _, name := range documents(t) {
		for _, block := range configurationBlocks(read(t, name)) {
			blocks++
			if !isExcerpt(block, files) {
				t.Errorf("%s: this block is in no file of examples, so nothing checks it. Move it there:\n%s", name, block)
			}
		}
	}
	if blocks < 20 {
		t.Errorf("found %d blocks", blocks)
	}
}

// exampleFiles are the texts of all files in Terraform's language in examples.
func exampleFiles(t *testing.T) (texts []string) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(root, "examples"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && entry.Name() == ".terraform" {
			return filepath.SkipDir
		}
		if filepath.Ext(path) == ".tf" || filepath.Ext(path) == ".hcl" {
			name, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			texts = append(texts, read(t, name))
		}
		return nil
	})
	if err != nil || len(texts) < 20 {
		t.Fatalf("%d files in examples: %v", len(texts), err)
	}
	return texts
}

// configurationBlocks are the blocks of Terraform's language in a document, without
// the indentation of the list that they may be in.
func configurationBlocks(text string) (blocks []string) {
	for _, match := range configuration.FindAllStringSubmatch(text, -1) {
		block := strings.ReplaceAll("\n"+match[2], "\n"+match[1], "\n")
		blocks = append(blocks, strings.Trim(block, "\n"))
	}
	return blocks
}

// isExcerpt says whether a block is made of whole lines of one file.
func isExcerpt(block string, files []string) bool {
	for _, text := range files {
		if block != "" && strings.Contains("\n"+text+"\n", "\n"+block+"\n") {
			return true
		}
	}
	return false
}

func TestIsExcerpt(t *testing.T) {
	const file = "resource \"a\" \"b\" {\n  name = \"c\"\n}\n"
	for _, test := range []struct {
		name, document string
		want           bool
	}{
		{"the whole file", "Text.\n\n```terraform\n" + file + "```\n", true},
		{"one line", "```hcl\n  name = \"c\"\n```\n", true},
		{"in a list", "1. Text:\n\n   ```terraform\n   resource \"a\" \"b\" {\n     name = \"c\"\n   }\n   ```\n", true},
		{"a part of a line", "```hcl\nname = \"c\"\n```\n", false},
		{"another value", "```terraform\nresource \"a\" \"b\" {\n  name = \"d\"\n}\n```\n", false},
		{"empty", "```terraform\n```\n", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			blocks := configurationBlocks(test.document)
			if len(blocks) != 1 || isExcerpt(blocks[0], []string{file}) != test.want {
				t.Errorf("%q, want %v", blocks, test.want)
			}
		})
	}
}
