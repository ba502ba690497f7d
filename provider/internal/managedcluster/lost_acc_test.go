package managedcluster_test

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/klusterlet"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// lostFleet is a cluster that is said to be gone, and one of everything that it may have.
const lostFleet = `
resource "muster_managed_cluster_set" "x" { name = "mc-lost" }

resource "muster_managed_cluster" "x" {
  name        = "mc-lost"
  cluster_set = muster_managed_cluster_set.x.name
  gone        = true
  timeouts { delete = "1m" }
}

resource "muster_cluster_acceptance" "x" { managed_cluster = muster_managed_cluster.x.name }

resource "muster_klusterlet" "x" {
  cluster_name       = muster_cluster_acceptance.x.managed_cluster
  namespace          = "mc-lost-agent"
  cluster_connection = { kubeconfig_path = %q }
  bootstrap          = { enabled = false }
  wait_for_bootstrap = false
}

resource "muster_namespace" "x" { name = "mc-lost-team" }

resource "muster_managed_cluster_set_binding" "x" {
  namespace   = muster_namespace.x.name
  cluster_set = muster_managed_cluster_set.x.name
}

resource "muster_placement" "x" {
  namespace   = muster_managed_cluster_set_binding.x.namespace
  name        = "all"
  tolerations = [{ operator = "Exists" }]
  depends_on  = [muster_cluster_acceptance.x]
}

resource "muster_manifest_work_replica_set" "x" {
  namespace  = muster_namespace.x.name
  name       = "rs"
  placements = [{ name = muster_placement.x.name }]
  objects    = [{ apiVersion = "v1", kind = "ConfigMap", metadata = { name = "x", namespace = "default" } }]
  timeouts { delete = "30s" }
}

resource "muster_addon_template" "x" {
  name       = "mc-lost"
  addon_name = "mc-lost"
  objects    = [{ apiVersion = "v1", kind = "ConfigMap", metadata = { name = "y", namespace = "default" } }]
}

resource "muster_addon" "x" {
  name     = "mc-lost"
  template = muster_addon_template.x.name
  timeouts { delete = "30s" }
}

resource "muster_cluster_addon" "x" {
  managed_cluster = muster_cluster_acceptance.x.managed_cluster
  name            = muster_addon.x.name
  timeouts { delete = "8s" }
}
`

// holdAll waits for the works of the replica set and the add-on, sets the finalizers that
// a deletion would wait for, and returns the works' names.
func holdAll(o *acctest.Outsider) (ofSet, ofAddOn string) {
	o.T.Helper()
	ctx, cancel := o.Context()
	defer cancel()
	list, here := &workv1.ManifestWorkList{}, kube.ListOptions{Namespace: "mc-lost"}
	both := func() (bool, error) { return len(list.Items) == 2, nil }
	err := o.Client.WaitList(ctx, list, &workv1.ManifestWork{}, here, both)
	if err != nil {
		o.T.Fatalf("waiting for two works, there are %d: %v", len(list.Items), err)
	}
	for _, w := range list.Items {
		o.Patch(&workv1.ManifestWork{}, w.Namespace, w.Name, finalizer(work.ManifestWorkFinalizer))
		if w.Labels[work.ReplicaSetLabel] != "" {
			ofSet = w.Name
		} else {
			ofAddOn = w.Name
		}
	}
	o.Patch(&addonv1alpha1.ManagedClusterAddOn{}, "mc-lost", "mc-lost", finalizer("example.com/agent-cleans-up"))
	return ofSet, ofAddOn
}

func finalizer(name string) (patch string) {
	return fmt.Sprintf(`{"metadata":{"finalizers":[%q]}}`, name)
}

// heard has the hub hear from the cluster's agent, or not any more.
func heard(o *acctest.Outsider, available metav1.ConditionStatus) {
	o.T.Helper()
	mc := &clusterv1.ManagedCluster{}
	o.Get(mc, "", "mc-lost")
	for _, condition := range []string{cluster.ConditionJoined, cluster.ConditionAvailable} {
		is := metav1.Condition{Type: condition, Status: metav1.ConditionTrue, Reason: "Test", Message: "by the test"}
		if condition == cluster.ConditionAvailable {
			is.Status = available
		}
		meta.SetStatusCondition(&mc.Status.Conditions, is)
	}
	ctx, cancel := o.Context()
	defer cancel()
	if err := o.Client.UpdateSubresource(ctx, mc, "status", acctest.OutsiderManager); err != nil {
		o.T.Fatal(err)
	}
}

// All that a cluster has goes within seconds when it is gone, and what stays in it is
// listed. One whose agent is still heard of is not given up, whatever somebody says.
func TestAccAllOfAClusterThatIsGone(t *testing.T) {
	process := acctest.DevCluster(t)
	o, inside, w := acctest.Someone(t), acctest.OutsiderOf(t, process), acctest.NewWorkspace(t)
	if said, ok := w.Apply(fmt.Sprintf(lostFleet, process.Kubeconfig)); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	ofSet, ofAddOn := holdAll(o)
	destroy := func(resource string) (said string, ok bool) {
		return w.Run("destroy", "-auto-approve", "-no-color", "-input=false", "-target="+resource+".x")
	}
	// A replica set is gone before its works, which don't stay behind.
	said, ok := destroy("muster_manifest_work_replica_set")
	acctest.Says(t, said, `Objects are left in the cluster "mc-lost", which is given up`,
		"they have made there: "+ofSet+".")
	if !ok || o.Exists(&workv1.ManifestWork{}, "mc-lost", ofSet) {
		t.Errorf("its work is left on the hub: %s", acctest.Excerpt(said))
	}

	heard(o, metav1.ConditionTrue)
	said, ok = destroy("muster_cluster_addon")
	if ok || !o.Exists(&addonv1alpha1.ManagedClusterAddOn{}, "mc-lost", "mc-lost") {
		t.Errorf("a cluster that is heard of was given up: %s", acctest.Excerpt(said))
	}
	acctest.Says(t, said, `Not removed yet: add-on "mc-lost" in cluster "mc-lost"`)

	heard(o, metav1.ConditionUnknown)
	began := time.Now()
	said, ok = w.Destroy()
	if took := time.Since(began); !ok || took > time.Minute {
		t.Fatalf("after %s: %s", took, acctest.Excerpt(said))
	}
	acctest.Says(t, said, `Objects are left in the cluster "mc-lost", which is given up`, "made there: "+ofAddOn+".",
		"kubectl delete namespace open-cluster-management-agent", work.AppliedManifestWorkFinalizer,
		`The agent of cluster "mc-lost" was not removed`, "its muster_managed_cluster says that it is gone for good")
	ctx, cancel := o.Context()
	defer cancel()
	left, addOns := &workv1.ManifestWorkList{}, &addonv1alpha1.ManagedClusterAddOnList{}
	here := kube.ListOptions{Namespace: "mc-lost"}
	if err := o.Client.List(ctx, left, here); err != nil || len(left.Items) > 0 {
		t.Errorf("works are left: %d, %v", len(left.Items), err)
	}
	if err := o.Client.List(ctx, addOns, here); err != nil || len(addOns.Items) > 0 {
		t.Errorf("add-ons are left: %d, %v", len(addOns.Items), err)
	}
	if o.Exists(&clusterv1.ManagedCluster{}, "", "mc-lost") {
		t.Error("the hub still has the cluster")
	}
	if o.Exists(&addonv1alpha1.ClusterManagementAddOn{}, "", "mc-lost") {
		t.Error("the hub still has the add-on")
	}
	if !inside.Exists(&appsv1.Deployment{}, "mc-lost-agent", klusterlet.Name) {
		t.Error("somebody has looked into the cluster")
	}
	inside.Remove(&corev1.Namespace{}, "", "mc-lost-agent")
}
