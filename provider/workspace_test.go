package provider

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6/tf6server"
)

// workspace is one user's Terraform: a configuration and a state of its own. Tests
// with several of them show how states get on with each other.
type workspace struct {
	t   *testing.T
	dir string
	env []string
}

// newWorkspace is an empty one for the shared hub.
func newWorkspace(t *testing.T) *workspace {
	t.Helper()
	if acc.hub == nil {
		t.Skip("acceptance tests run with TF_ACC=1")
	}
	ctx, cancel := context.WithCancel(context.Background())
	reattach, closed := make(chan *plugin.ReattachConfig), make(chan struct{})
	failed := make(chan error, 1)
	go func() {
		failed <- tf6server.Serve(Address, providerserver.NewProtocol6(New("test")()),
			tf6server.WithDebug(ctx, reattach, closed), tf6server.WithLoggingSink(t), tf6server.WithoutLogStderrOverride())
	}()
	var config *plugin.ReattachConfig
	select {
	case config = <-reattach:
	case err := <-failed:
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); <-closed })
	// OpenTofu takes the short name for one of its own registry.
	address := cmp.Or(os.Getenv("TF_ACC_PROVIDER_HOST"), "registry.terraform.io") + "/muster-fleet/muster"
	text, err := json.Marshal(map[string]any{address: map[string]any{
		"Protocol": string(config.Protocol), "ProtocolVersion": config.ProtocolVersion, "Pid": config.Pid, "Test": true,
		"Addr": map[string]string{"Network": config.Addr.Network(), "String": config.Addr.String()},
	}})
	if err != nil {
		t.Fatal(err)
	}
	w := &workspace{t: t, dir: t.TempDir()}
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "TF_") {
			w.env = append(w.env, variable)
		}
	}
	w.env = append(w.env, "TF_REATTACH_PROVIDERS="+string(text), "MUSTER_KUBECONFIG="+acc.hub.Kubeconfig, "TF_IN_AUTOMATION=1")
	return w
}

// write is the configuration from now on.
func (w *workspace) write(config string) {
	w.t.Helper()
	config = "terraform {\n  required_providers {\n    muster = { source = \"muster-fleet/muster\" }\n  }\n}\n" + config
	if err := os.WriteFile(filepath.Join(w.dir, "main.tf"), []byte(config), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// run runs Terraform and returns what it says, with the wrapping of its lines
// undone, and whether it succeeded.
func (w *workspace) run(args ...string) (said string, ok bool) {
	command := exec.Command(cmp.Or(os.Getenv("TF_ACC_TERRAFORM_PATH"), "terraform"), args...)
	command.Dir, command.Env = w.dir, w.env
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	err := command.Run()
	return strings.Join(strings.Fields(out.String()), " "), err == nil
}

// apply makes the configuration so.
func (w *workspace) apply(config string) (said string, ok bool) {
	w.t.Helper()
	w.init(config)
	return w.run("apply", "-auto-approve", "-no-color", "-input=false")
}

// plan only says what would be done.
func (w *workspace) plan(config string) string {
	w.t.Helper()
	w.init(config)
	said, _ := w.run("plan", "-no-color", "-input=false")
	return said
}

func (w *workspace) destroy() (said string, ok bool) {
	return w.run("destroy", "-auto-approve", "-no-color", "-input=false")
}

func (w *workspace) init(config string) {
	w.t.Helper()
	w.write(config)
	if said, ok := w.run("init", "-no-color", "-input=false"); !ok {
		w.t.Fatal(said)
	}
}

// loseState forgets all that Terraform knows.
func (w *workspace) loseState() {
	w.t.Helper()
	if err := os.Remove(filepath.Join(w.dir, "terraform.tfstate")); err != nil {
		w.t.Fatal(err)
	}
}

// says fails the test if one of the texts is missing in what Terraform said.
func says(t *testing.T, said string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(said, strings.Join(strings.Fields(text), " ")) {
			t.Errorf("Terraform does not say %q but %s", text, excerpt(said))
		}
	}
}

// excerpt leaves out what a plan lists.
func excerpt(said string) string {
	return regexp.MustCompile(`Terraform will perform the following actions:.*?Plan:`).ReplaceAllString(said, "… Plan:")
}
