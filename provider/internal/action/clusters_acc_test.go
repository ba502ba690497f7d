package action_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/hubtest"
	"github.com/muster-fleet/terraform-provider-muster/internal/klusterlet"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

func accept(o *acctest.Outsider, name, yes string) {
	o.Patch(&clusterv1.ManagedCluster{}, "", name, `{"spec":{"hubAcceptsClient":`+yes+`}}`)
}

func TestAccWaitShowsHowFarEachClusterIs(t *testing.T) {
	o := someone(t, onHub)
	newCluster(o, "slow", false, nil)
	got := invoke(t, "muster_wait_joined", map[string]any{"managed_clusters": []string{"cluster1", "slow"}}, func(said string) {
		switch {
		case strings.Contains(said, "slow waits to be accepted"):
			theHub.Kill(t) // the hub goes away in the middle of the wait
			theHub.Restart(t)
			accept(o, "slow", "true")
		case strings.Contains(said, "slow is accepted, and its agent has not joined yet"):
			joined(o, "slow")
		}
	})
	got.said(t, "cluster1 is available, with Kubernetes v1.", "slow waits to be accepted: hubAcceptsClient is not true", "slow is available (2 of 2)")
	invoke(t, "muster_wait_joined", map[string]any{"managed_clusters": []string{"cluster1"}, "until": "joined"}, nil).said(t, "cluster1 has joined")
}

func TestAccWaitForASelection(t *testing.T) {
	o := someone(t, onHub)
	newCluster(o, "sel-a", true, map[string]string{cluster.ClusterSetLabel: "default", "wave": "1"})
	newCluster(o, "sel-b", true, map[string]string{cluster.ClusterSetLabel: "default", "wave": "1"})
	joined(o, "sel-a")
	selected := map[string]any{"cluster_set": "default", "label_selector": "wave=1", "timeout": "2s"}
	invoke(t, "muster_wait_joined", selected, nil).failed(t, "1 of 2 clusters are available within 2s, not: sel-b", "its agent has not joined", "kubectl get csr")
	selected["minimum"] = 1
	invoke(t, "muster_wait_joined", selected, nil).said(t, "sel-a is available")
	invoke(t, "muster_wait_joined", map[string]any{"cluster_set": "defautl"}, nil).failed(t, `There is no cluster set "defautl"`, "Did you mean default?")
	invoke(t, "muster_wait_joined", map[string]any{"label_selector": "wave=2", "timeout": "1s"}, nil).failed(t, "No cluster was selected", "wave=2")
	invoke(t, "muster_wait_joined", map[string]any{"label_selector": "wave=", "managed_clusters": []string{"x"}}, nil).failed(t, "managed_clusters")
	invoke(t, "muster_wait_joined", map[string]any{"timeout": "10"}, nil).failed(t, "timeout")
}

func TestAccWaitEndsWhenItIsOfNoUse(t *testing.T) {
	o := someone(t, onHub)
	newCluster(o, "refused", true, nil)
	got := invoke(t, "muster_wait_joined", map[string]any{"managed_clusters": []string{"refused"}}, func(said string) {
		if strings.Contains(said, "its agent has not joined yet") {
			accept(o, "refused", "false")
		}
	})
	got.failed(t, "refused can't join", "refused was denied")
	typo := invoke(t, "muster_wait_joined", map[string]any{"managed_clusters": []string{"cluser1"}, "timeout": "2s"}, nil)
	typo.failed(t, `The hub has no ManagedCluster "cluser1"`, "Did you mean cluster1")
}

func TestAccDeny(t *testing.T) {
	o := someone(t, onHub)
	newCluster(o, "deniable", true, nil)
	object := &clusterv1.ManagedCluster{}
	o.Wait(object, "", "deniable", func() bool { return meta.IsStatusConditionTrue(object.Status.Conditions, cluster.ConditionHubAccepted) })
	deny := map[string]any{"managed_cluster": "deniable"}
	invoke(t, "muster_deny_cluster", deny, nil).said(t, "deniable is denied", "The hub has withdrawn the rights")
	o.Get(object, "", "deniable")
	invoke(t, "muster_deny_cluster", deny, nil).said(t, "Nothing is to be done")
	again := &clusterv1.ManagedCluster{}
	if o.Get(again, "", "deniable"); again.ResourceVersion != object.ResourceVersion {
		t.Error("a cluster that was denied already was written")
	}
	// As a muster_cluster_acceptance does.
	owned := &clusterv1.ManagedCluster{}
	owned.Name, owned.Spec.HubAcceptsClient = "deniable", ptr.To(true)
	ctx, cancel := o.Context()
	defer cancel()
	if err := o.Client.Apply(ctx, owned, kube.ApplyOptions{Manager: hub.AcceptanceManager, Force: true}); err != nil {
		t.Fatal(err)
	}
	invoke(t, "muster_deny_cluster", deny, nil).failed(t, `Terraform accepts managed cluster "deniable"`, "accepted = false")
	deny["force_conflicts"] = true
	invoke(t, "muster_deny_cluster", deny, nil).said(t, "deniable is denied")
	invoke(t, "muster_deny_cluster", map[string]any{"managed_cluster": "denyable"}, nil).failed(t, `There is no managed cluster "denyable"`, "Did you mean deniable?")
	invoke(t, "muster_deny_cluster", map[string]any{"managed_cluster": "NOT A NAME"}, nil).failed(t, "managed_cluster")
}

// plain is a work of one config map.
func plain(name, namespace, object string) *workv1.ManifestWork {
	w := &workv1.ManifestWork{}
	w.Namespace, w.Name = namespace, name
	w.Spec.Workload.Manifests = []workv1.Manifest{manifest(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":"` + object + `"},"data":{"a":"1"}}`)}
	return w
}

func TestAccDetach(t *testing.T) {
	o := someone(t, onHub)
	inside := someone(t, func(h *hubtest.Hub) string { return h.Clusters[1].Kubeconfig })
	o.Apply(plain("w", "cluster2", "detached"))
	applied := &workv1.ManifestWork{}
	o.Wait(applied, "cluster2", "w", func() bool { return meta.IsStatusConditionTrue(applied.Status.Conditions, work.ConditionApplied) })
	o.Patch(&clusterv1.ManagedCluster{}, "", "cluster2", `{"metadata":{"annotations":{"muster-fleet.io/terraform-owner":"x"}}}`)
	got := invoke(t, "muster_detach_cluster", map[string]any{"managed_cluster": "cluster2", "delete_namespace": true, "timeout": "1m"}, nil)
	got.said(t, "The hub is asked to let cluster2 go.", "1 work left: w", "cluster2 is no longer in the fleet.", "The namespace cluster2 is gone.")
	got.warned(t, `Terraform manages managed cluster "cluster2"`)
	if inside.Exists(configMap(), "default", "detached") {
		t.Error("the object of its work is still in the cluster")
	}
	gone := invoke(t, "muster_detach_cluster", map[string]any{"managed_cluster": "cluster2"}, nil)
	gone.failed(t, `There is no managed cluster "cluster2"`, "Did you mean cluster1?", "detached before together with its namespace")
	leavesNothing(t, inside, theHub.Clusters[1].Kubeconfig)
}

// leavesNothing installs an agent as an import does, and has it removed.
func leavesNothing(t *testing.T, inside *acctest.Outsider, kubeconfig string) {
	t.Helper()
	install := func(by string) []klusterlet.Object {
		objects := klusterlet.Render(klusterlet.Options{ClusterName: "cluster2", BootstrapKubeconfig: []byte("x"), InstalledBy: by})
		for _, object := range objects {
			inside.Apply(object)
		}
		return objects
	}
	leave := map[string]any{"managed_cluster": "cluster2", "cluster_kubeconfig": kubeconfig, "timeout": "2m"}
	install(muster.InstalledByTerraform)
	invoke(t, "muster_detach_cluster", leave, nil).failed(t, "is not to be removed", "a muster_klusterlet has installed the agent")
	objects := install(muster.InstalledByImport)
	other := map[string]any{"managed_cluster": "cluster3", "cluster_kubeconfig": kubeconfig}
	invoke(t, "muster_detach_cluster", other, nil).failed(t, "is not to be removed", `serves the name "cluster2"`)
	got := invoke(t, "muster_detach_cluster", leave, nil)
	got.warned(t, `Left in the cluster "cluster2"`, "CustomResourceDefinition appliedmanifestworks.work.open-cluster-management.io")
	for _, object := range objects {
		empty := object.DeepCopyObject().(kube.Object)
		if inside.Exists(empty, object.GetNamespace(), object.GetName()) {
			t.Errorf("%T %s is still in the cluster", object, object.GetName())
		}
	}
	invoke(t, "muster_detach_cluster", leave, nil).said(t, "are removed from the cluster cluster2")
	leave["cluster_kubeconfig"] = "/nowhere"
	invoke(t, "muster_detach_cluster", leave, nil).failed(t, "The connection to the cluster is not configured properly")
}

func TestAccDetachALostCluster(t *testing.T) {
	o := someone(t, onHub)
	newCluster(o, "lost", true, nil)
	object := &clusterv1.ManagedCluster{}
	o.Wait(object, "", "lost", func() bool { return meta.IsStatusConditionTrue(object.Status.Conditions, cluster.ConditionHubAccepted) })
	left := plain("web", "lost", "stays")
	left.Finalizers = []string{work.ManifestWorkFinalizer}
	o.Apply(left)
	lost := map[string]any{"managed_cluster": "lost", "timeout": "3s"}
	invoke(t, "muster_detach_cluster", lost, nil).failed(t, `Managed cluster "lost" is not detached within 3s`, cluster.APIResourceCleanupFinalizer, "1 work left: web", "detach it with force")
	lost["force"], lost["timeout"] = true, "1m"
	got := invoke(t, "muster_detach_cluster", lost, nil)
	got.said(t, "The work web goes without its agent.", "lost is no longer in the fleet.", "The namespace lost stays on the hub")
	got.warned(t, `Objects are left in the cluster "lost"`, "web: ConfigMap default/stays")
}
