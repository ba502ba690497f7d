package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Each command that takes the hub's kubeconfig takes one of its contexts, too.
func TestWhatTakesAKubeconfigTakesAContext(t *testing.T) {
	tested := 0
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		kubeconfig := cmd.Flags().Lookup("kubeconfig")
		if kubeconfig != nil && strings.HasPrefix(kubeconfig.Usage, "kubeconfig of the hub, ") {
			tested++
			if cmd.Flags().Lookup("context") == nil {
				t.Errorf("%s has --kubeconfig and no --context", cmd.CommandPath())
			}
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(newRootCommand())
	if tested < 10 {
		t.Errorf("only %d commands take a kubeconfig", tested)
	}
}

func TestHubFlags(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hubs")
	if err := os.WriteFile(path, []byte(`{"apiVersion":"v1","kind":"Config","current-context":"a",
		"clusters":[{"name":"a","cluster":{"server":"https://127.0.0.1:1"}}],"users":[{"name":"a","user":{"token":"x"}}],
		"contexts":[{"name":"a","context":{"cluster":"a","user":"a"}},{"name":"b","context":{"cluster":"a","user":"a"}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for context, want := range map[string]string{"": "", "b": "b"} {
		at := hubFlags{kubeconfig: path, context: context}
		config, err := at.provider()
		if err != nil || config["kubeconfig_path"] != path || config["context"] != want {
			t.Errorf("--context %q: %v, %v", context, config, err)
		}
		if _, err := at.client(); err != nil {
			t.Errorf("--context %q: %v", context, err)
		}
	}
	if _, err := (&hubFlags{kubeconfig: path, context: "nope"}).client(); err == nil || !strings.Contains(err.Error(), `"nope"`) || !strings.Contains(err.Error(), path) {
		t.Errorf("a context that is not there: %v", err)
	}
	if _, err := (&hubFlags{kubeconfig: path + "x"}).provider(); err == nil || !strings.Contains(err.Error(), "--kubeconfig") {
		t.Errorf("a kubeconfig that is not there: %v", err)
	}
}
