package acctest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6/tf6server"

	"github.com/muster-fleet/terraform-provider-muster/provider"
)

// Terraform is one user's: a real one with a configuration and a state of its own, for
// tests of what only a real one shows. Others use a Workspace.
type Terraform struct {
	T   *testing.T
	Dir string
	env []string
	// reattach says where providers run, by their address.
	reattach map[string]reattachment
}

// reattachment is where a provider runs, as Terraform reads it from its environment.
type reattachment struct {
	Protocol        string
	ProtocolVersion int
	Pid             int
	Test            bool
	Addr            struct{ Network, String string }
}

// NewTerraform is one for the shared hub, with an empty state.
func NewTerraform(t *testing.T) *Terraform {
	t.Helper()
	needsHub(t)
	w := &Terraform{T: t, Dir: t.TempDir(), reattach: map[string]reattachment{}}
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "TF_") {
			w.env = append(w.env, variable)
		}
	}
	w.env = append(w.env, "MUSTER_KUBECONFIG="+Acc.Hub.Kubeconfig, "TF_IN_AUTOMATION=1")
	server, err := provider.NewServer("test")
	if err != nil {
		t.Fatal(err)
	}
	w.Serve("muster-fleet/muster", func() tfprotov6.ProviderServer { return server })
	return w
}

// Serve runs a provider in this process. Terraform takes it for the one with this
// address, and downloads none.
func (w *Terraform) Serve(address string, server func() tfprotov6.ProviderServer) {
	w.T.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	reattach, closed := make(chan *plugin.ReattachConfig), make(chan struct{})
	failed := make(chan error, 1)
	// OpenTofu takes a short name for one of its own registry.
	address = cmp.Or(os.Getenv("TF_ACC_PROVIDER_HOST"), "registry.terraform.io") + "/" + address
	go func() {
		failed <- tf6server.Serve(address, server,
			tf6server.WithDebug(ctx, reattach,
				closed), tf6server.WithLoggingSink(w.T), tf6server.WithoutLogStderrOverride())
	}()
	var config *plugin.ReattachConfig
	select {
	case config = <-reattach:
	case err := <-failed:
		cancel()
		w.T.Fatal(err)
	}
	w.T.Cleanup(func() { cancel(); <-closed })
	at := reattachment{Protocol: string(config.Protocol), ProtocolVersion: config.ProtocolVersion, Pid: config.Pid,
		Test: true}
	at.Addr.Network, at.Addr.String = config.Addr.Network(), config.Addr.String()
	w.reattach[address] = at
}

// In is the same Terraform with another configuration and state, for a test that may
// run beside others.
func (w *Terraform) In(t *testing.T, dir string) *Terraform {
	own := *w
	own.T, own.Dir = t, dir
	return &own
}

// write is the configuration from now on.
func (w *Terraform) write(config string) {
	w.T.Helper()
	config = "terraform {\n  required_providers {\n    muster = { source = \"muster-fleet/muster\" }\n  }\n}\n" + config
	if err := os.WriteFile(filepath.Join(w.Dir, "main.tf"), []byte(config), 0o600); err != nil {
		w.T.Fatal(err)
	}
}

// Environment is that of Terraform: it finds the providers and the hub in it.
func (w *Terraform) Environment() []string {
	w.T.Helper()
	reattach, err := json.Marshal(w.reattach)
	if err != nil {
		w.T.Fatal(err)
	}
	return append(w.env[:len(w.env):len(w.env)], "TF_REATTACH_PROVIDERS="+string(reattach))
}

// Run runs Terraform and returns what it says, with the wrapping of its lines
// undone, and whether it succeeded.
func (w *Terraform) Run(args ...string) (said string, ok bool) {
	var out bytes.Buffer
	err := w.command(&out, args...).Run()
	return unwrapped(&out), err == nil
}

// Interrupt is Run, and presses Ctrl-C as soon as then returns.
func (w *Terraform) Interrupt(then func(), args ...string) (said string, ok bool) {
	w.T.Helper()
	var out bytes.Buffer
	command := w.command(&out, args...)
	if err := command.Start(); err != nil {
		w.T.Fatal(err)
	}
	then()
	if err := command.Process.Signal(os.Interrupt); err != nil {
		w.T.Error(err)
	}
	err := command.Wait()
	return unwrapped(&out), err == nil
}

func (w *Terraform) command(out *bytes.Buffer, args ...string) *exec.Cmd {
	command := exec.Command(cmp.Or(os.Getenv("TF_ACC_TERRAFORM_PATH"), "terraform"), args...)
	command.Dir, command.Env = w.Dir, w.Environment()
	command.Stdout, command.Stderr = out, out
	return command
}

func unwrapped(out *bytes.Buffer) string { return strings.Join(strings.Fields(out.String()), " ") }

// MustRun runs Terraform, which has to succeed, and returns what it says.
func (w *Terraform) MustRun(args ...string) (said string) {
	w.T.Helper()
	said, ok := w.Run(args...)
	if !ok {
		w.T.Fatalf("terraform %s: %s", strings.Join(args, " "), Excerpt(said))
	}
	return said
}

// Setenv sets an environment variable of Terraform and of the provider from now on.
// The provider runs in the test's process.
func (w *Terraform) Setenv(name, value string) {
	w.T.Helper()
	w.T.Setenv(name, value)
	w.env = append(w.env, name+"="+value)
}

// Apply makes the configuration so.
func (w *Terraform) Apply(config string) (said string, ok bool) {
	w.T.Helper()
	w.prepare(config)
	return w.Run("apply", "-auto-approve", "-no-color", "-input=false")
}

// Plan only says what would be done.
func (w *Terraform) Plan(config string) string {
	w.T.Helper()
	w.prepare(config)
	said, _ := w.Run("plan", "-no-color", "-input=false")
	return said
}

// Destroy runs terraform destroy.
func (w *Terraform) Destroy() (said string, ok bool) {
	return w.Run("destroy", "-auto-approve", "-no-color", "-input=false")
}

// prepare writes a configuration. Providers run in this process already, so that only
// modules need an init.
func (w *Terraform) prepare(config string) {
	w.T.Helper()
	if strings.Contains(config, "module \"") {
		w.Init(config)
		return
	}
	w.write(config)
}

// Init runs terraform init for a configuration.
func (w *Terraform) Init(config string) {
	w.T.Helper()
	w.write(config)
	if said, ok := w.Run("init", "-no-color", "-input=false"); !ok {
		w.T.Fatal(said)
	}
}

// LoseState forgets all that Terraform knows.
func (w *Terraform) LoseState() {
	w.T.Helper()
	if err := os.Remove(filepath.Join(w.Dir, "terraform.tfstate")); err != nil {
		w.T.Fatal(err)
	}
}
