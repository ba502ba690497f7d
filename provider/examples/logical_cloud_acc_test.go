package examples_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testhub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
)

// TestAccLogicalCloudExample applies the example logical-cloud to three real clusters
// with real agents: the namespace and the rights arrive, kubectl gets in by the
// kubeconfig of the example's output, the plan after it is empty, and the rights go
// with the cloud.
func TestAccLogicalCloudExample(t *testing.T) {
	first := acctest.DevCluster(t)
	clusters := map[string]*testhub.Process{"edge1": first, "edge2": sibling(t, first), "edge3": sibling(t, first)}
	kubeconfigs := map[string]string{}
	for name, cluster := range clusters {
		kubeconfigs[name] = cluster.Kubeconfig
	}
	w := copyExamples(t).at(t, acctest.NewTerraform(t), "logical-cloud")
	with := []string{
		"-no-color", "-input=false", "-var", "fleet_dir=" + startedFleet(t, kubeconfigs), "-var", `clusters=["edge1","edge2","edge3"]`,
	}
	w.MustRun(append([]string{"apply", "-auto-approve"}, with...)...)
	roles := func(inside *acctest.Outsider) int {
		list := &rbacv1.RoleList{}
		ctx, cancel := inside.Context()
		defer cancel()
		if err := inside.Client.List(ctx, list, kube.ListOptions{Namespace: "team-a-prod"}); err != nil {
			t.Fatal(err)
		}
		return len(list.Items)
	}
	for name, cluster := range clusters {
		inside := acctest.OutsiderOf(t, cluster)
		inside.Get(&corev1.Namespace{}, "", "team-a-prod")
		if n := roles(inside); n != 1 {
			t.Errorf("the cluster %s has %d roles for the cloud", name, n)
		}
	}
	t.Run("kubectl", func(t *testing.T) {
		command := strings.TrimSpace(w.MustRun("output", "-raw", "kubeconfig"))
		kubeconfig := userKubeconfig(t, w, command)
		for name := range clusters {
			says := kubectlAs(t, kubeconfig, "jo@example.com@"+name)
			says("yes", "auth", "can-i", "create", "deployments.apps")
			says("no", "auth", "can-i", "create", "deployments.apps", "--namespace", "kube-system")
			says("no", "auth", "can-i", "create", "configmaps", "--all-namespaces")
			says("configmap/by-jo created", "create", "configmap", "by-jo")
		}
	})
	acctest.Says(t, w.MustRun(append([]string{"plan"}, with...)...), "No changes.")
	w.MustRun(append([]string{"destroy", "-auto-approve"}, with...)...)
	for name, cluster := range clusters {
		inside := acctest.OutsiderOf(t, cluster)
		if roles(inside) != 0 {
			t.Errorf("the rights are still there in %s", name)
		}
		inside.Get(&corev1.Namespace{}, "", "team-a-prod") // on_delete is Keep
	}
}

// userKubeconfig runs the command of the example's output in its folder, and returns
// the file that it writes.
func userKubeconfig(t *testing.T, w *acctest.Terraform, command string) string {
	t.Helper()
	program, err := acctest.Acc.Builder.Path(acctest.Acc.Dir)
	if err != nil {
		t.Fatal(err)
	}
	args := strings.Fields(command)
	if len(args) == 0 || args[0] != "muster" {
		t.Fatalf("the output is %q", command)
	}
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CACHE_HOME", home)
	cmd := exec.CommandContext(t.Context(), program, args[1:]...)
	cmd.Dir = home
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return filepath.Join(home, args[len(args)-1])
}

// kubectlAs runs kubectl in a context of a kubeconfig, and checks what it says. Without
// kubectl, the test is skipped.
func kubectlAs(t *testing.T, kubeconfig, kubeContext string) func(want string, args ...string) {
	t.Helper()
	path := testkit.Kubectl(t)
	return func(want string, args ...string) {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), path, append([]string{"--kubeconfig", kubeconfig, "--context", kubeContext}, args...)...).Output()
		if got := strings.TrimSpace(string(out)); got != want {
			t.Errorf("kubectl %s in %s: got %q, want %q (%v)", strings.Join(args, " "), kubeContext, got, want, err)
		}
	}
}
