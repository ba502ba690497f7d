package e2e

import (
	"bufio"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/fleet"
)

// TestExplain asks about a cluster on its way into the fleet, and about a work that its
// agent can't apply.
func TestExplain(t *testing.T) {
	members := upFleet(t, fleet.UpOptions{Clusters: 1, Driver: fleet.DriverDevcluster})
	hub, managed := admin(t, members[0]), admin(t, members[1])
	explain := func(kind, name string, wants ...string) {
		t.Helper()
		testkit.Eventually(t, func() error {
			out, errOut, err := run(t, "explain", kind, name, "--kubeconfig", members[0].Kubeconfig)
			for _, want := range wants {
				if err != nil || !strings.Contains(out, want) {
					return fmt.Errorf("%v: it does not say %q:\n%s%s", err, want, out, errOut)
				}
			}
			return nil
		})
	}
	create(t, hub, &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "rome"}})
	explain("cluster", "rome", "rome waits to be accepted.",
		`{"spec":{"hubAcceptsClient":true}}' --kubeconfig `+members[0].Kubeconfig)
	accept(t, hub, "oslo", "e2e001")
	explain("cluster", "oslo", "The agent has not asked for a certificate")

	join(t, hub, managed, "cluster1", "")
	explain("cluster", "cluster1", "cluster1 is available.")
	w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "cluster1", Name: "web"}}
	w.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{
		Raw: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"nowhere","name":"a"}}`)}}}
	create(t, hub, w)
	explain("work", "cluster1/web", "ConfigMap nowhere/a could not be applied", "kubectl create namespace nowhere")
}

// TestStatusWatch follows a cluster from its record on the hub to its acceptance, and ends
// as a user does.
func TestStatusWatch(t *testing.T) {
	members := upFleet(t, fleet.UpOptions{Driver: fleet.DriverDevcluster})
	hub := admin(t, members[0])
	cmd := exec.CommandContext(t.Context(), muster, "status", "--watch", "--kubeconfig", members[0].Kubeconfig)
	out, err := cmd.StdoutPipe()
	testkit.Must(t, err)
	testkit.Must(t, cmd.Start())
	lines := bufio.NewScanner(out)
	until := func(part string) { // the test's deadline ends the command, and with it this
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), part) {
				return
			}
		}
		t.Fatalf("it ended without saying %q", part)
	}
	until("MANIFESTS")
	create(t, hub, &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "rome"}})
	until(" rome waits to be accepted.")
	accept(t, hub, "oslo", "e2e002")
	until(" oslo is accepted, and its agent has not joined yet.")
	testkit.Must(t, hub.Delete(t.Context(), &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "rome"}}))
	until(" The cluster rome is gone.")
	testkit.Must(t, cmd.Process.Signal(syscall.SIGINT))
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
}
