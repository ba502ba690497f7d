package e2e

import (
	"fmt"
	"strings"
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
