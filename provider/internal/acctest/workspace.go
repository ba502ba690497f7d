package acctest

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

	"github.com/muster-fleet/terraform-provider-muster/provider"
)

// Workspace is one user's Terraform: a configuration and a state of its own. Tests
// with several of them show how states get on with each other.
type Workspace struct {
	T   *testing.T
	Dir string
	env []string
}

// NewWorkspace is an empty one for the shared hub.
func NewWorkspace(t *testing.T) *Workspace {
	t.Helper()
	if Acc.Hub == nil {
		t.Skip("acceptance tests run with TF_ACC=1")
	}
	ctx, cancel := context.WithCancel(context.Background())
	reattach, closed := make(chan *plugin.ReattachConfig), make(chan struct{})
	failed := make(chan error, 1)
	go func() {
		failed <- tf6server.Serve(provider.Address, providerserver.NewProtocol6(provider.New("test")()),
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
	w := &Workspace{T: t, Dir: t.TempDir()}
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "TF_") {
			w.env = append(w.env, variable)
		}
	}
	w.env = append(w.env, "TF_REATTACH_PROVIDERS="+string(text), "MUSTER_KUBECONFIG="+Acc.Hub.Kubeconfig, "TF_IN_AUTOMATION=1")
	return w
}

// write is the configuration from now on.
func (w *Workspace) write(config string) {
	w.T.Helper()
	config = "terraform {\n  required_providers {\n    muster = { source = \"muster-fleet/muster\" }\n  }\n}\n" + config
	if err := os.WriteFile(filepath.Join(w.Dir, "main.tf"), []byte(config), 0o600); err != nil {
		w.T.Fatal(err)
	}
}

// Run runs Terraform and returns what it says, with the wrapping of its lines
// undone, and whether it succeeded.
func (w *Workspace) Run(args ...string) (said string, ok bool) {
	command := exec.Command(cmp.Or(os.Getenv("TF_ACC_TERRAFORM_PATH"), "terraform"), args...)
	command.Dir, command.Env = w.Dir, w.env
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	err := command.Run()
	return strings.Join(strings.Fields(out.String()), " "), err == nil
}

// Apply makes the configuration so.
func (w *Workspace) Apply(config string) (said string, ok bool) {
	w.T.Helper()
	w.Init(config)
	return w.Run("apply", "-auto-approve", "-no-color", "-input=false")
}

// Plan only says what would be done.
func (w *Workspace) Plan(config string) string {
	w.T.Helper()
	w.Init(config)
	said, _ := w.Run("plan", "-no-color", "-input=false")
	return said
}

// Destroy runs terraform destroy.
func (w *Workspace) Destroy() (said string, ok bool) {
	return w.Run("destroy", "-auto-approve", "-no-color", "-input=false")
}

// Init runs terraform init for a configuration.
func (w *Workspace) Init(config string) {
	w.T.Helper()
	w.write(config)
	if said, ok := w.Run("init", "-no-color", "-input=false"); !ok {
		w.T.Fatal(said)
	}
}

// LoseState forgets all that Terraform knows.
func (w *Workspace) LoseState() {
	w.T.Helper()
	if err := os.Remove(filepath.Join(w.Dir, "terraform.tfstate")); err != nil {
		w.T.Fatal(err)
	}
}

// Says fails the test if one of the texts is missing in what Terraform said.
func Says(t *testing.T, said string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(said, strings.Join(strings.Fields(text), " ")) {
			t.Errorf("Terraform does not say %q but %s", text, Excerpt(said))
		}
	}
}

// Excerpt leaves out what a plan lists.
func Excerpt(said string) string {
	return regexp.MustCompile(`Terraform will perform the following actions:.*?Plan:`).ReplaceAllString(said, "… Plan:")
}
