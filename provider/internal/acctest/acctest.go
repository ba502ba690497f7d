package acctest

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-testing/echoprovider"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testhub"
	"github.com/muster-fleet/terraform-provider-muster/provider"
)

// Acc is what the acceptance tests share: one hub, and one dev cluster that is
// started when a test first needs it.
var Acc accState

type accState struct {
	Dir     string
	Builder testhub.Builder
	Hub     *testhub.Process

	clusterOnce sync.Once
	cluster     *testhub.Process
	clusterErr  error
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
	for _, process := range []*testhub.Process{Acc.cluster, Acc.Hub} {
		if process == nil {
			continue
		}
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

// DevCluster is the dev cluster of the tests.
func DevCluster(t *testing.T) *testhub.Process {
	t.Helper()
	if os.Getenv("TF_ACC") == "" {
		t.Skip("acceptance tests run with TF_ACC=1")
	}
	Acc.clusterOnce.Do(func() {
		program, err := Acc.Builder.Path(Acc.Dir)
		if err != nil {
			Acc.clusterErr = err
			return
		}
		Acc.cluster, Acc.clusterErr = testhub.StartCluster(program, filepath.Join(Acc.Dir, "cluster"))
	})
	if Acc.clusterErr != nil {
		t.Fatal(Acc.clusterErr)
	}
	return Acc.cluster
}

// Factories are the providers that the tests use.
func Factories() map[string]func() (tfprotov6.ProviderServer, error) {
	return map[string]func() (tfprotov6.ProviderServer, error){
		"muster": func() (tfprotov6.ProviderServer, error) { return provider.NewServer("test") },
		"echo":   echoprovider.NewProviderServer(),
	}
}
