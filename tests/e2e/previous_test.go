package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testhub"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/fleet"
)

// beforeReleases is the commit that stands for the previous release as long as there is none.
const beforeReleases = "f941660920b48c9594481277c492262b8a46533e"

// previousMuster builds muster as of the previous release.
func previousMuster(t *testing.T) string {
	t.Helper()
	root := filepath.Join("..", "..")
	ref := beforeReleases
	tag, err := exec.Command("git", "-C", root, "describe", "--tags", "--abbrev=0", "--match", "v*", "HEAD^").Output()
	if err == nil {
		ref = strings.TrimSpace(string(tag))
	}
	if err := exec.Command("git", "-C", root, "cat-file", "-e", ref+"^{commit}").Run(); err != nil {
		t.Skipf(
			"the history of the repository is not here, so the previous release (%s) can't be built: "+
				"fetch it with git fetch --unshallow --tags",
			ref,
		)
	}
	dir := t.TempDir()
	archive := filepath.Join(dir, "source.tar")
	program := filepath.Join(dir, "muster")
	for _, command := range [][]string{
		{"git", "-C", root, "archive", "--output", archive, ref},
		{"tar", "-xf", archive, "-C", dir},
		{"go", "build", "-C", dir, "-o", program, "./runtime/cmd/muster"},
	} {
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, out)
		}
	}
	return program
}

// A hub takes over the data of the previous release, and agents of either version go on
// with either hub, without joining again.
func TestOneVersionApart(t *testing.T) {
	previous := previousMuster(t)
	started := func(p *testhub.Process, err error) *testhub.Process {
		t.Helper()
		testkit.Must(t, err)
		t.Cleanup(func() { testkit.Must(t, p.Stop()) })
		return p
	}
	dir := t.TempDir()
	hub := started(testhub.StartHub(previous, filepath.Join(dir, "hub")))
	admins := admin(t, fleet.Member{Kubeconfig: hub.Kubeconfig})
	agents := map[string]*testhub.Process{}
	for name, program := range map[string]string{"old": previous, "new": muster} {
		cluster := started(testhub.StartCluster(muster, filepath.Join(dir, name)))
		bootstrap := filepath.Join(dir, name+".bootstrap")
		id := "e2e" + name
		testkit.Must(t, os.WriteFile(bootstrap, accept(t, admins, name, id), 0o600))
		agents[name] = started(testhub.StartAgent(program, name, bootstrap, cluster.Kubeconfig))
		hasJoined(t, admins, name, agents[name].Log)
		// Nobody can join again without it.
		testkit.Must(t, admins.Delete(t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-" + id},
		}))
	}
	round := func(what string) {
		t.Helper()
		for name, agent := range agents {
			apply(t, admins, name, what, agent.Log)
		}
	}
	round("both-with-the-old-hub")
	testkit.Must(t, hub.Stop())
	testkit.Must(t, hub.RestartAs(muster))
	round("both-with-the-new-hub")
	testkit.Must(t, agents["old"].Stop())
	testkit.Must(t, agents["old"].RestartAs(muster))
	round("all-new")
}

// apply sends a work to a cluster and waits until it is applied. agent says how the agent fares.
func apply(t *testing.T, hub side, cluster, name string, agent func() string) {
	t.Helper()
	m := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: name}}
	m.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: fmt.Appendf(nil,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":"default"}}`, name)}}}
	create(t, hub, m)
	testkit.EventuallyThat(t, fmt.Sprintf("%s is applied in %s", name, cluster), func() error {
		if err := hub.Get(t.Context(), client.ObjectKeyFromObject(m), m); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(m.Status.Conditions, work.ConditionApplied) {
			return fmt.Errorf("it has %+v\n%s", m.Status.Conditions, agent())
		}
		return nil
	})
}
