// Package acctest is for the acceptance tests of the provider: a hub and a dev
// cluster that the tests of a package share, Terraform, and a client that acts
// beside it. It runs the whole provider, so that only external tests (package
// x_test) can use it.
package acctest

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-testing/echoprovider"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testhub"
	"github.com/muster-fleet/terraform-provider-muster/provider"
	"github.com/muster-fleet/terraform-provider-muster/tests/inprocess"
)

// Acc is what the acceptance tests share: one hub, and dev clusters that are started
// when a test finds none that is free.
var Acc accState

type accState struct {
	Dir     string
	Builder testhub.Builder
	Hub     *testhub.Process

	mu       sync.Mutex
	clusters []*testhub.Process
	// free are those of clusters that no test has now.
	free []*testhub.Process
}

// HubKubeconfig is where the hub's kubeconfig is; empty without a hub.
func (a *accState) HubKubeconfig() string {
	if a.Hub == nil {
		return ""
	}
	return a.Hub.Kubeconfig
}

// Main runs the tests of a package, with a hub when acceptance tests are
// asked for. It returns the exit code.
func Main(m *testing.M) int {
	if os.Getenv("TF_ACC") == "" {
		return m.Run()
	}
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	// Parallel tests mostly wait. A flag of the command line counts for more.
	if err := flag.Set("test.parallel", "5"); err != nil {
		return fail(err)
	}
	dir, err := os.MkdirTemp("", "muster-provider-")
	if err != nil {
		return fail(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	Acc.Dir = dir
	program, err := Acc.Builder.Path(dir)
	if err != nil {
		return fail(err)
	}
	if Acc.Hub, err = testhub.StartHub(program, filepath.Join(dir, "hub"), Gates()...); err != nil {
		return fail(err)
	}
	if err := os.Setenv("MUSTER_KUBECONFIG", Acc.Hub.Kubeconfig); err != nil {
		return fail(err)
	}
	code := m.Run()
	for _, process := range append(Acc.clusters, Acc.Hub) {
		if err := process.Stop(); err != nil {
			code = fail(err)
		}
	}
	return code
}

// Gates are the arguments of a hub that serves all kinds, and that installs agents in
// clusters of its own machine.
func Gates() []string {
	return []string{"--feature-gates", "ClusterImport=true", "--cluster-import-allow-loopback"}
}

// needsHub skips what is run without acceptance tests.
func needsHub(t *testing.T) {
	t.Helper()
	if Acc.Hub == nil {
		t.Skip("acceptance tests run with TF_ACC=1")
	}
}

// DevCluster is a dev cluster that the test has alone until it ends, and leaves as it has
// found it.
func DevCluster(t *testing.T) *testhub.Process {
	t.Helper()
	needsHub(t)
	process, err := Acc.take()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !t.Failed() {
			Acc.giveBack(process)
		}
	})
	return process
}

// OwnHub is a hub that the test has alone, started with further flags and stopped when the
// test ends.
func OwnHub(t *testing.T, flags ...string) *testhub.Process {
	t.Helper()
	needsHub(t)
	program, err := Acc.Builder.Path(Acc.Dir)
	if err != nil {
		t.Fatal(err)
	}
	hub, err := testhub.StartHub(program, filepath.Join(t.TempDir(), "hub"), flags...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := hub.Stop(); err != nil {
			t.Error(err)
		}
	})
	return hub
}

// take is a cluster that no test has: the one that was left last, or a new one.
func (a *accState) take() (*testhub.Process, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if last := len(a.free) - 1; last >= 0 {
		process := a.free[last]
		a.free = a.free[:last]
		return process, nil
	}
	program, err := a.Builder.Path(a.Dir)
	if err != nil {
		return nil, err
	}
	process, err := testhub.StartCluster(program, filepath.Join(a.Dir, fmt.Sprintf("cluster-%d", len(a.clusters))))
	if err == nil {
		a.clusters = append(a.clusters, process)
	}
	return process, err
}

func (a *accState) giveBack(process *testhub.Process) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.free = append(a.free, process)
}

// Factories are the providers that the tests use.
func Factories() map[string]func() (tfprotov6.ProviderServer, error) {
	return map[string]func() (tfprotov6.ProviderServer, error){
		"muster": func() (tfprotov6.ProviderServer, error) { return provider.NewServer("test") },
		"echo":   echoprovider.NewProviderServer(),
	}
}

// Workspace is one user's configuration and state, without a Terraform.
type Workspace = inprocess.Workspace

// NewWorkspace is an empty one for the shared hub.
func NewWorkspace(t *testing.T) *Workspace {
	t.Helper()
	needsHub(t)
	return inprocess.NewWorkspace(t, Factories())
}

// Run runs steps against the shared hub, without a Terraform.
func Run(t *testing.T, steps ...resource.TestStep) {
	t.Helper()
	needsHub(t)
	inprocess.Test(t, resource.TestCase{ProtoV6ProviderFactories: Factories(), Steps: steps})
}

// RunTerraform runs steps against the shared hub with a real Terraform.
func RunTerraform(t *testing.T, steps ...resource.TestStep) {
	t.Helper()
	resource.Test(t, resource.TestCase{ProtoV6ProviderFactories: Factories(), Steps: steps})
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
