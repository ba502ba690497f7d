package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// maxSize is how large the agent's program may be, in bytes, as it is built for a
// release. Every managed cluster pulls it. 3 MB of it are QUIC, for tunnels.
const maxSize = 46_000_000

// module is the path of all packages of this repository.
const module = "github.com/muster-fleet/terraform-provider-muster/"

func TestTheAgentLinksNoControlPlane(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	forbidden := []string{
		"k8s.io/kubernetes", "k8s.io/kubectl", "k8s.io/kube-aggregator", "k8s.io/apiserver/pkg/registry", "k8s.io/apiserver/pkg/storage",
		"k8s.io/apiserver/pkg/admission", "go.etcd.io/etcd", "google.golang.org/grpc", "sigs.k8s.io/kind",
		module + "runtime/controlplane", module + "runtime/devcluster", module + "runtime/fleet", module + "runtime/hub", module + "provider",
	}
	for _, dependency := range strings.Fields(string(out)) {
		if i := slices.IndexFunc(forbidden, func(f string) bool { return dependency == f || strings.HasPrefix(dependency, f+"/") }); i >= 0 {
			t.Errorf("the agent depends on %s", dependency)
		}
	}
}

func TestTheAgentIsSmall(t *testing.T) {
	program := filepath.Join(t.TempDir(), "muster-agent")
	build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the agent: %v\n%s", err, out)
	}
	info, err := os.Stat(program)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the agent has %d bytes", info.Size())
	if info.Size() > maxSize {
		t.Errorf("the agent has %d bytes, more than %d: find what links most with `go tool nm -size -sort size` and `go list -deps`, "+
			"and see whether something keeps the linker from dropping unused methods, such as text/template", info.Size(), maxSize)
	}
}

// The klusterlet's pod runs `/muster agent`, whichever of the two programs is in
// its image.
func TestTheAgentIsASubCommand(t *testing.T) {
	agent, _, err := newRootCommand().Find([]string{"agent", "--cluster-name=c1"})
	if err != nil || agent.Name() != "agent" {
		t.Errorf("found %v, %v", agent, err)
	}
}
