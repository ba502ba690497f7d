package replicaset_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// workAgents plays the agents of all clusters: it reports on each work that a
// replica set has in them.
type workAgents struct {
	o *acctest.Outsider

	mu      sync.Mutex
	failing map[string]bool
}

func (a *workAgents) fail(cluster string, failing bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failing = map[string]bool{cluster: failing}
}

// Run follows the works until the test is over.
func (a *workAgents) Run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	t.Cleanup(func() { cancel(); <-ended })
	go func() {
		defer close(ended)
		list := &workv1.ManifestWorkList{}
		err := a.o.Client.WaitList(ctx, list, &workv1.ManifestWork{}, kube.ListOptions{LabelSelector: "work.open-cluster-management.io/manifestworkreplicaset"}, func() (bool, error) {
			for i := range list.Items {
				a.report(ctx, &list.Items[i])
			}
			return false, nil
		})
		if ctx.Err() == nil {
			t.Errorf("the agents ended: %v", err)
		}
	}()
}

func (a *workAgents) report(ctx context.Context, w *workv1.ManifestWork) {
	a.mu.Lock()
	failing := a.failing[w.Namespace]
	a.mu.Unlock()
	status := func(holds bool) metav1.ConditionStatus {
		if holds {
			return metav1.ConditionTrue
		}
		return metav1.ConditionFalse
	}
	changed := false
	for kind, holds := range map[string]bool{"Applied": true, "Available": true, "Progressing": failing, "Degraded": failing} {
		changed = meta.SetStatusCondition(&w.Status.Conditions, metav1.Condition{
			Type: kind, Status: status(holds), Reason: "Test", Message: "by the test", ObservedGeneration: w.Generation,
		}) || changed
	}
	if changed {
		_ = a.o.Client.UpdateSubresource(ctx, w, "status", "agent") // a conflict comes with a further event
	}
}

// With a real hub, from the placement to the last cluster.
func TestAccManifestWorkReplicaSetRollsOut(t *testing.T) {
	hub := gatedHub(t)
	o := acctest.OutsiderOf(t, hub)
	o.Namespace("shop")
	agents := &workAgents{o: o}
	agents.Run(t)
	fleet := connectedTo(hub) + `
resource "muster_managed_cluster_set" "fleet" {
  name = "fleet"
}
resource "muster_managed_cluster_set_binding" "fleet" {
  namespace   = "shop"
  cluster_set = muster_managed_cluster_set.fleet.name
}
resource "muster_managed_cluster" "fleet" {
  count       = 3
  name        = "c${count.index + 1}"
  cluster_set = muster_managed_cluster_set.fleet.name
}
resource "muster_cluster_acceptance" "fleet" {
  count           = 3
  managed_cluster = muster_managed_cluster.fleet[count.index].name
}
resource "muster_placement" "europe" {
  namespace    = muster_managed_cluster_set_binding.fleet.namespace
  name         = "europe"
  cluster_sets = [muster_managed_cluster_set.fleet.name]
  depends_on   = [muster_cluster_acceptance.fleet]
  # No agent beats for these clusters.
  tolerations = [{ operator = "Exists" }]
}
`
	config := func(answer, timeout string) string {
		return fleet + replicaSetConfig("shop", strings.Replace(replicaSetManifests, "42", answer, 1)+fmt.Sprintf(`
  placements = [{
    name             = muster_placement.europe.name
    rollout_strategy = { type = "Progressive", max_concurrency = "1" }
  }]
  cascade_deletion_policy = "Foreground"
  wait = { rolled_out = true }
  timeouts { update = %q }
`, timeout))
	}
	summary := func(total, degraded int64) []statecheck.StateCheck {
		return []statecheck.StateCheck{
			statecheck.ExpectKnownValue(replicaSetAddress, tfjsonpath.New("summary").AtMapKey("total"), knownvalue.Int64Exact(total)),
			statecheck.ExpectKnownValue(replicaSetAddress, tfjsonpath.New("summary").AtMapKey("degraded"), knownvalue.Int64Exact(degraded)),
		}
	}
	data := `
data "muster_manifest_work_replica_set" "test" {
  namespace = muster_manifest_work_replica_set.test.namespace
  name      = muster_manifest_work_replica_set.test.name
}
`
	acctest.Run(t,
		resource.TestStep{Config: config("42", "1m") + data, ConfigStateChecks: append(append(ready(true), summary(3, 0)...),
			statecheck.ExpectKnownValue("data.muster_manifest_work_replica_set.test", tfjsonpath.New("works"), knownvalue.ListSizeExact(3)),
			statecheck.ExpectKnownValue("data.muster_manifest_work_replica_set.test", tfjsonpath.New("works").AtSliceIndex(2).AtMapKey("managed_cluster"), knownvalue.StringExact("c3")),
			statecheck.ExpectKnownValue("data.muster_manifest_work_replica_set.test", tfjsonpath.New("works").AtSliceIndex(2).AtMapKey("available"), knownvalue.StringExact("True")),
		)},
		// The first failure stops the rollout, and the error names the cluster.
		resource.TestStep{
			PreConfig:   func() { agents.fail("c2", true) },
			Config:      config("43", "5s"),
			ExpectError: acctest.Saying("Degraded is True (Test): by the test"),
		},
		// Not even a later apply takes what is reported of the cluster for success.
		resource.TestStep{Config: config("43", "2s"), ExpectError: acctest.Saying("PlacementRolledOut is False")},
		resource.TestStep{
			PreConfig: func() {
				time.AfterFunc(time.Second, func() { agents.fail("c2", false); touch(o, "c2") })
			},
			Config: config("43", "1m"), ConfigStateChecks: append(ready(true), summary(3, 0)...),
		},
	)
}

// touch makes the agents look at a cluster's works again.
func touch(o *acctest.Outsider, clusterName string) {
	ctx, cancel := o.Context()
	defer cancel()
	list := &workv1.ManifestWorkList{}
	if err := o.Client.List(ctx, list, kube.ListOptions{Namespace: clusterName}); err != nil {
		o.T.Error(err)
		return
	}
	for i := range list.Items {
		if err := o.Client.MergePatch(ctx, &list.Items[i], acctest.OutsiderManager, map[string]any{"metadata": map[string]any{"annotations": map[string]any{"touched": "yes"}}}); err != nil {
			o.T.Error(err)
		}
	}
}
