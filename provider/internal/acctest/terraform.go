package acctest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6/tf6server"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

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

// ClusterAddress is the resource of ClusterConfig.
const ClusterAddress = "muster_managed_cluster.test"

// ClusterConfig is a managed cluster, with more of its body.
func ClusterConfig(name, body string) string {
	return fmt.Sprintf("resource \"muster_managed_cluster\" \"test\" {\n  name = %q\n%s\n}\n", name, body)
}

// Saying matches a text however Terraform breaks its lines.
func Saying(texts ...string) *regexp.Regexp {
	var parts []string
	for _, text := range texts {
		var words []string
		for _, word := range strings.Fields(text) {
			words = append(words, regexp.QuoteMeta(word))
		}
		parts = append(parts, strings.Join(words, `\s+`))
	}
	return regexp.MustCompile(`(?s)` + strings.Join(parts, `.*`))
}

// AcceptanceAddress is the acceptance of AcceptanceConfig.
const AcceptanceAddress = "muster_cluster_acceptance.test"

// AcceptanceConfig is a managed cluster and its acceptance.
func AcceptanceConfig(name, body string) string {
	return ClusterConfig(name, "") + fmt.Sprintf("resource \"muster_cluster_acceptance\" \"test\" {\n  "+
		"managed_cluster = muster_managed_cluster.test.name\n%s\n}\n", body)
}

// PlacementConfig is a placement called where.
func PlacementConfig(namespace, body string) string {
	return fmt.Sprintf("resource \"muster_placement\" \"test\" {\n  namespace = %q\n  name = \"where\"\n%s\n}\n",
		namespace, body)
}

// PlacementBody sets every attribute of the selection.
const PlacementBody = `
  labels             = { team = "shop" }
  annotations        = { owner = "Joe's team" }
  sort_by            = "Score"
  score_rate_limit   = "5m"
  spread_policy = {
    spread_constraints = [
      { topology_key = "region", topology_key_type = "Label", max_skew = 2, when_unsatisfiable = "DoNotSchedule" },
      { topology_key = "platform", topology_key_type = "Claim" },
    ]
  }
  cluster_sets       = ["blue", "global"]
  number_of_clusters = 2
  predicates = [
    {
      label_selector = {
        match_labels      = { env = "prod" }
        match_expressions = [{ key = "region", operator = "NotIn", values = ["us", "eu"] }]
      }
      claim_selector  = { match_expressions = [{ key = "platform", operator = "Exists" }] }
      cel_expressions = ["managedCluster.metadata.name != 'x'"]
    },
    { label_selector = { match_labels = { always = "yes" } } },
  ]
  prioritizer_policy = {
    mode = "Exact"
    configurations = [
      { built_in = "ResourceAllocatableMemory", weight = 2 },
      { add_on = { resource_name = "default", score_name = "latency" }, weight = -3 },
      { built_in = "Steady" },
    ]
  }
  tolerations = [
    { key = "maintenance", value = "soft", effect = "NoSelect", toleration_seconds = 60 },
    { operator = "Exists" },
  ]
  decision_strategy = {
    clusters_per_decision_group = "25%"
    decision_groups = [{ name = "canary", label_selector = { match_labels = { canary = "true" } } }]
  }`

// SetConfig is a cluster set.
func SetConfig(name, body string) string {
	return fmt.Sprintf("resource \"muster_managed_cluster_set\" \"test\" {\n  name = %q\n%s\n}\n", name, body)
}

// WorkAddress is the resource of WorkConfig.
const WorkAddress = "muster_manifest_work.test"

// WorkConfig is a work on an accepted cluster.
func WorkConfig(cluster, body string) string {
	return AcceptanceConfig(cluster, "") + fmt.Sprintf(`
resource "muster_manifest_work" "test" {
  managed_cluster = muster_cluster_acceptance.test.managed_cluster
  name            = "web"
%s
}
`, body)
}

const (
	// AsYAML is a config map as YAML, AsJSON the same as JSON.
	AsYAML = `  manifests = [<<-YAML
    # A comment.
    apiVersion: v1
    kind: ConfigMap
    metadata:
      name: settings
      namespace: shop
    data:
      answer: "42"
      script: |
        a < b && c
    ---
    apiVersion: v1
    kind: Namespace
    metadata: {name: shop}
  YAML
  ]`
	// AsJSON is what AsYAML is.
	AsJSON = `  manifests = [
    jsonencode({
      kind = "ConfigMap", apiVersion = "v1", data = { script = "a < b && c\n", answer = "42" }
      metadata = { namespace = "shop", name = "settings" }
    }),
    yamlencode({ apiVersion = "v1", kind = "Namespace", metadata = { name = "shop" } }),
  ]`
	// WithOptions is AsYAML with every option of a work.
	WithOptions = AsYAML + `
  labels        = { app = "web" }
  delete_option = {
    propagation_policy = "SelectivelyOrphan"
    orphaning_rules    = [{ resource = "namespaces", name = "shop" }]
  }
  executor      = { namespace = "shop", service_account = "deployer" }
  manifest_configs = [
    {
      resource_identifier = { resource = "configmaps", name = "settings", namespace = "shop" }
      update_strategy = {
        type              = "ServerSideApply"
        server_side_apply = { ignore_fields = [{ json_paths = [".data.answer"] }] }
      }
    },
    {
      resource_identifier = { group = "batch", resource = "jobs", name = "*", namespace = "*" }
      feedback_rules = [
        { type = "WellKnownStatus" },
        { type = "JSONPaths", json_paths = [{ name = "done", path = ".status.succeeded" }] },
      ]
      condition_rules = [
        { condition = "Complete", type = "CEL", cel_expressions = ["object.status.succeeded > 0"] },
      ]
    },
  ]`
)

// ConfiguredServer is the provider with a hub at host.
func ConfiguredServer(t testing.TB, host string) tfprotov6.ProviderServer {
	t.Helper()
	server, err := provider.NewServer("test")
	if err != nil {
		t.Fatal(err)
	}
	schemas, err := server.GetProviderSchema(t.Context(), &tfprotov6.GetProviderSchemaRequest{})
	if err != nil {
		t.Fatal(err)
	}
	object := schemas.Provider.ValueType().(tftypes.Object)
	values := map[string]tftypes.Value{}
	for name, kind := range object.AttributeTypes {
		values[name] = tftypes.NewValue(kind, nil)
	}
	values["host"] = tftypes.NewValue(tftypes.String, host)
	config, err := tfprotov6.NewDynamicValue(object, tftypes.NewValue(object, values))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := server.ConfigureProvider(t.Context(), &tfprotov6.ConfigureProviderRequest{Config: &config})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range resp.Diagnostics {
		t.Fatalf("%s: %s", d.Summary, d.Detail)
	}
	return server
}
