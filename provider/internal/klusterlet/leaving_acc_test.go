package klusterlet_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// leavingConfig installs an agent in a cluster whose detaching may take half a minute:
// far less than it would wait for an agent that is not there.
func leavingConfig(kubeconfig, body string) string {
	return acctest.ClusterConfig("kl-left", "  timeouts { delete = \"30s\" }") + fmt.Sprintf(`
resource "muster_cluster_acceptance" "test" { managed_cluster = muster_managed_cluster.test.name }
resource "muster_klusterlet" "test" {
  cluster_name       = muster_managed_cluster.test.name
  namespace          = "kl-left-agent"
  cluster_connection = { kubeconfig_path = %q }
  wait_for_bootstrap = false
%s}
`, kubeconfig, fmt.Sprintf(bootstrapOf, 1)+body)
}

// heldWork makes a work that is not in any state, with finalizers.
func heldWork(o *acctest.Outsider, name string, finalizers ...string) {
	object := &workv1.ManifestWork{}
	object.Namespace, object.Name, object.Finalizers = "kl-left", name, finalizers
	raw := []byte(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"x"}}`)
	object.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: raw}}}
	o.Apply(object)
}

// heldBy are the finalizers of works.
func heldBy(o *acctest.Outsider, names ...string) string {
	var all []string
	for _, name := range names {
		object := &workv1.ManifestWork{}
		o.Get(object, "kl-left", name)
		all = append(all, name+":"+strings.Join(slices.Sorted(slices.Values(object.Finalizers)), ","))
	}
	return strings.Join(all, " ")
}

// appliedRecord is what an agent notes in its cluster of a work that it has applied.
func appliedRecord(name string) *workv1.AppliedManifestWork {
	hash, object := work.HubHash("https://another.hub"), &workv1.AppliedManifestWork{}
	object.Name = work.AppliedManifestWorkName(hash, name)
	object.Spec = workv1.AppliedManifestWorkSpec{HubHash: hash, ManifestWorkName: name}
	return object
}

// Works that the agent has never applied don't hold up the ManagedCluster when the agent
// is gone. Its finalizer stays on what may still be applied, and others' stay at all.
func TestAccKlusterletLetsWorksGo(t *testing.T) {
	t.Parallel()
	process := acctest.DevCluster(t)
	managed, o, w := acctest.OutsiderOf(t, process), acctest.Someone(t), acctest.NewWorkspace(t)
	const agents, others = work.ManifestWorkFinalizer, "example.com/hold"
	config := leavingConfig(process.Kubeconfig, "")
	if said, ok := w.Apply(config); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	o.Wait(&corev1.Namespace{}, "", "kl-left", func() bool { return true })
	heldWork(o, "never", agents)
	heldWork(o, "held", agents, others)
	heldWork(o, "applied", agents)
	waitForKind(managed, &workv1.AppliedManifestWorkList{})
	managed.Apply(appliedRecord("applied"))
	managed.Remove(&corev1.Secret{}, "kl-left-agent", cluster.BootstrapSecret) // so nobody knows its hub
	destroy := []string{"destroy", "-auto-approve", "-no-color", "-input=false", "-target=muster_klusterlet.test"}

	acctest.Says(t, w.MustRun(destroy...),
		`Works of cluster "kl-left" are left on the hub without an agent`,
		"its finalizer was taken off these works, which can be deleted now: held, never. Another agent of this cluster",
		`Works of cluster "kl-left" are still applied in it, and its agent is removed`,
		"what they have made is still in the cluster: applied. They and the ManagedCluster can't be deleted until",
		"kubectl edit manifestwork -n kl-left NAME # on the hub: remove "+agents+" from metadata.finalizers")
	if got := heldBy(o, "never", "held", "applied"); got != "never: held:"+others+" applied:"+agents {
		t.Errorf("the finalizers are %s", got)
	}

	// The hub serves another cluster's agent under this name: its works are not touched.
	if said, ok := w.Apply(config); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	o.Patch(&workv1.ManifestWork{}, "kl-left", "never", `{"metadata":{"finalizers":["`+agents+`"]}}`)
	elsewhere := func(uid string) {
		o.Patch(&clusterv1.ManagedCluster{}, "", "kl-left",
			fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, muster.ClusterUIDAnnotation, uid))
	}
	elsewhere(`"of-another"`)
	if said := w.MustRun(destroy...); strings.Contains(said, "finalizer") || heldBy(o, "never") != "never:"+agents {
		t.Errorf("now %s: %s", heldBy(o, "never"), acctest.Excerpt(said))
	}

	// What is applied is to stay there: so the configuration says, and the cluster goes at once.
	elsewhere("null")
	if said, ok := w.Apply(leavingConfig(process.Kubeconfig, "  keep_works_on_destroy = true\n")); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	o.Patch(&workv1.ManifestWork{}, "kl-left", "held", `{"metadata":{"finalizers":null}}`)
	began := time.Now()
	said, ok := w.Destroy()
	acctest.Says(t, said, "which can be deleted now: applied, never. "+
		"What they have made stays in the cluster, as keep_works_on_destroy is true.")
	if took := time.Since(began); !ok || took > time.Minute || o.Exists(&clusterv1.ManagedCluster{}, "", "kl-left") {
		t.Errorf("after %s: %s", took, acctest.Excerpt(said))
	}
	managed.Remove(&workv1.AppliedManifestWork{}, "", appliedRecord("applied").Name)
}

// waitForKind waits until the server serves a kind, by its list.
func waitForKind(o *acctest.Outsider, list runtime.Object) {
	o.T.Helper()
	ctx, cancel := o.Context()
	defer cancel()
	for {
		err := o.Client.List(ctx, list, kube.ListOptions{})
		if err == nil {
			return
		}
		if !kube.IsKindNotServed(err) {
			o.T.Fatal(err)
		}
		select {
		case <-ctx.Done():
			o.T.Fatal(err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
