package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// inline is a command within a sentence. It may leave out what a person adds.
var inline = regexp.MustCompile("`muster ([a-z][^`]*)`")

// TestCommandsInDocuments reads each command line of muster in the documents, and in the
// examples of the commands' help, as muster does: the commands and flags are there,
// and the arguments and the values of flags are of the right number and form.
func TestCommandsInDocuments(t *testing.T) {
	complete, mentioned := 0, 0
	for _, path := range documents(t) {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range commandLines(string(content)) {
			complete++
			if err := accepts(line); err != nil {
				t.Errorf("%s: muster %s: %v", path, strings.Join(line, " "), err)
			}
		}
		for _, match := range inline.FindAllStringSubmatch(string(content), -1) {
			mentioned++
			if problem := knows(strings.Fields(match[1])); problem != "" {
				t.Errorf("%s: muster %s: %s", path, match[1], problem)
			}
		}
	}
	if complete < 40 || mentioned < 20 {
		t.Errorf("%d command lines and %d commands in sentences are fewer than the documents have", complete, mentioned)
	}
	eachCommand(newRootCommand(), func(c *cobra.Command) {
		for _, line := range commandLines("```shell\n" + c.Example + "\n```") {
			if err := accepts(line); err != nil {
				t.Errorf("the example of %s: muster %s: %v", c.CommandPath(), strings.Join(line, " "), err)
			}
		}
	})
}

func eachCommand(c *cobra.Command, do func(*cobra.Command)) {
	do(c)
	for _, child := range c.Commands() {
		eachCommand(child, do)
	}
}

// documents are the files that people read; docs/ is generated from some of them.
func documents(t *testing.T) []string {
	t.Helper()
	root := filepath.Join("..", "..", "..")
	paths := []string{filepath.Join(root, "README.md"), filepath.Join(root, "CONTRIBUTING.md"), filepath.Join(root, "ARCHITECTURE.md")}
	for _, dir := range []string{"docs", "templates", "examples", "provider"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, _ fs.DirEntry, err error) error {
			if strings.HasSuffix(path, ".md") || strings.HasSuffix(path, ".md.tmpl") {
				paths = append(paths, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return paths
}

// commandLines are the arguments of muster in the blocks of shell commands of a text.
func commandLines(text string) (lines [][]string) {
	block, shell := false, false
	text = strings.ReplaceAll(text, "\\\n", " ")
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if language, ok := strings.CutPrefix(line, "```"); ok {
			block, shell = !block, slices.Contains([]string{"shell", "console", "sh", "bash"}, language)
			continue
		}
		args, ok := strings.CutPrefix(strings.TrimPrefix(line, "$ "), "muster ")
		if ok && block && shell && !strings.HasPrefix(args, "→") {
			lines = append(lines, words(args))
		}
	}
	return lines
}

// words divides a command line as a shell does, up to where the command ends.
func words(line string) (out []string) {
	var word strings.Builder
	var quote rune
	begun := false
	end := func() {
		if begun {
			out = append(out, word.String())
		}
		word.Reset()
		begun = false
	}
	for _, c := range line {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '\'' || c == '"':
			quote, begun = c, true
		case c == ' ':
			end()
		case strings.ContainsRune("|><&;", c), c == '#' && !begun:
			end()
			return out
		default:
			word.WriteRune(c)
			begun = true
		}
	}
	end()
	return out
}

// leftOut stands for what a document does not repeat.
const leftOut = "…"

// accepts explains why muster would not take a command line, without carrying it out.
func accepts(args []string) error {
	whole := !slices.Contains(args, leftOut)
	args = slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return arg == leftOut })
	cmd, rest, err := newRootCommand().Find(args)
	if err != nil {
		return err
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	if !whole {
		return nil
	}
	if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
		return err
	}
	return cmd.ValidateRequiredFlags()
}

// knows tells what muster does not know of a command in a sentence.
func knows(args []string) (problem string) {
	cmd, rest, err := newRootCommand().Find(args)
	switch {
	case err != nil:
		return err.Error()
	case !cmd.HasParent():
		return "there is no such command"
	}
	for _, arg := range rest {
		if arg == "--" { // what follows is another program's
			break
		}
		name, isFlag := strings.CutPrefix(arg, "--")
		name, _, _ = strings.Cut(name, "=")
		known := cmd.Flag(name) != nil || cmd.InheritedFlags().Lookup(name) != nil || pflag.CommandLine.Lookup(name) != nil
		if isFlag && !known && name != "help" {
			return "there is no flag --" + name
		}
	}
	return ""
}

func TestCommandsThatMusterDoesNotHave(t *testing.T) {
	text := "muster nothing here\n```console\n$ muster rejoin paris --ttl 1h | kubectl apply -f - # fine\n$ muster rejoin --ttl soon\n" +
		"$ muster rejoin a b\n$ muster hub … --nothing 'a b'\n$ kubectl get pods\n```\n"
	lines := commandLines(text)
	if len(lines) != 4 || !slices.Equal(lines[0], []string{"rejoin", "paris", "--ttl", "1h"}) || !slices.Equal(lines[3], []string{"hub", leftOut, "--nothing", "a b"}) {
		t.Fatalf("got %q", lines)
	}
	for i, line := range lines {
		if err := accepts(line); (err == nil) != (i == 0) {
			t.Errorf("muster %s: %v", strings.Join(line, " "), err)
		}
	}
	for args, want := range map[string]string{"rejoin CLUSTER": "", "hub --data-dir DIR": "", "hub --nothing": "--nothing", "rejoyn x": "unknown"} {
		if got := knows(strings.Fields(args)); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("muster %s: %q, want %q", args, got, want)
		}
	}
}
