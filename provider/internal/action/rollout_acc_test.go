package action_test

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

// playAgents plays the agents of clusters until the test is over. A work fails in
// those whose name ends in -a, until it recovers.
func playAgents(t *testing.T, o *acctest.Outsider, recovers func(w *workv1.ManifestWork) bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	t.Cleanup(func() { cancel(); <-ended })
	go func() {
		defer close(ended)
		list := &workv1.ManifestWorkList{}
		_ = o.Client.WaitList(ctx, list, &workv1.ManifestWork{}, kube.ListOptions{LabelSelector: work.ReplicaSetLabel}, func() (bool, error) {
			for i := range list.Items {
				w := &list.Items[i]
				failing := metav1.ConditionFalse
				if strings.HasSuffix(w.Namespace, "-a") && !recovers(w) && !meta.IsStatusConditionFalse(w.Status.Conditions, work.ConditionDegraded) {
					failing = metav1.ConditionTrue
				}
				changed := false
				for kind, status := range map[string]metav1.ConditionStatus{
					work.ConditionApplied: metav1.ConditionTrue, work.ConditionAvailable: metav1.ConditionTrue,
					work.ConditionProgressing: failing, work.ConditionDegraded: failing,
				} {
					changed = meta.SetStatusCondition(&w.Status.Conditions, metav1.Condition{
						Type: kind, Status: status, Reason: "Test", Message: "by the test", ObservedGeneration: w.Generation,
					}) || changed
				}
				if changed {
					_ = o.Client.UpdateSubresource(ctx, w, "status", "agent") // a conflict comes with a further event
				}
				if w.Annotations[work.ReplayAnnotation] != "" {
					_ = o.Client.MergePatch(ctx, w, "agent", map[string]any{"metadata": map[string]any{"annotations": map[string]any{work.ReplayAnnotation: nil}}})
				}
			}
			return false, nil
		})
	}()
}

// stopped makes a rollout that goes to one cluster at a time, and waits until it
// has stopped at the first.
func stopped(t *testing.T, o *acctest.Outsider, namespace string) {
	t.Helper()
	gated(t, o, namespace, "")
	replicas := &workv1alpha1.ManifestWorkReplicaSet{}
	o.Wait(replicas, namespace, "web", func() bool { return replicas.Status.Summary.Degraded == 1 })
}

// gated makes a rollout with gates that goes to one cluster at a time, each in a decision
// group of its own.
func gated(t *testing.T, o *acctest.Outsider, namespace, gates string) {
	t.Helper()
	o.Namespace(namespace)
	set := &clusterv1beta2.ManagedClusterSet{}
	set.Name = namespace
	o.Apply(set)
	binding := &clusterv1beta2.ManagedClusterSetBinding{}
	binding.Namespace, binding.Name, binding.Spec.ClusterSet = namespace, namespace, namespace
	o.Apply(binding)
	for _, name := range []string{namespace + "-a", namespace + "-b"} {
		newCluster(o, name, true, map[string]string{cluster.ClusterSetLabel: namespace})
		object := &clusterv1.ManagedCluster{}
		o.Wait(object, "", name, func() bool { return meta.IsStatusConditionTrue(object.Status.Conditions, cluster.ConditionHubAccepted) })
		joined(o, name)
	}
	placement := &clusterv1beta1.Placement{}
	placement.Namespace, placement.Name = namespace, "all"
	placement.Spec.DecisionStrategy.GroupStrategy.ClustersPerDecisionGroup = intstr.FromInt32(1)
	placement.Spec.Tolerations = []clusterv1beta1.Toleration{{Operator: clusterv1beta1.TolerationOpExists}}
	o.Apply(placement)
	o.Wait(placement, namespace, "all", func() bool { return placement.Status.NumberOfSelectedClusters == 2 })
	replicas := &workv1alpha1.ManifestWorkReplicaSet{}
	replicas.Namespace, replicas.Name = namespace, "web"
	replicas.Spec.ManifestWorkTemplate = plain("", "", "web").Spec
	replicas.Spec.PlacementRefs = []workv1alpha1.LocalPlacementReference{{Name: "all", RolloutStrategy: clusterv1alpha1.RolloutStrategy{
		Type:        clusterv1alpha1.RolloutTypeProgressive,
		Progressive: &clusterv1alpha1.RolloutProgressive{MaxConcurrency: intstr.FromInt32(1)},
	}}}
	if gates != "" {
		replicas.Annotations = map[string]string{muster.RolloutGatesAnnotation: gates}
	}
	o.Apply(replicas)
	t.Cleanup(func() { o.Remove(&workv1alpha1.ManifestWorkReplicaSet{}, namespace, "web") })
}

func TestAccResumeARolloutByTryingAgain(t *testing.T) {
	o := someone(t, onHub)
	playAgents(t, o, func(w *workv1.ManifestWork) bool { return w.Annotations[work.ReplayAnnotation] != "" })
	stopped(t, o, "resumed")
	resume := map[string]any{"namespace": "resumed", "name": "web", "rolled_out": true, "timeout": "30s"}
	invoke(t, "muster_resume_rollout", resume, nil).said(t, "The agent of resumed-a is asked to apply the work", "resumed-a: the work has recovered.", "The rollout of resumed/web is complete.")
	invoke(t, "muster_resume_rollout", resume, nil).said(t, "Nothing is to be resumed.")
	resume["managed_clusters"] = []string{"resumed-c"}
	invoke(t, "muster_resume_rollout", resume, nil).failed(t, `has no work in the cluster "resumed-c"`, "Did you mean resumed-a")
	invoke(t, "muster_resume_rollout", map[string]any{"namespace": "resumed", "name": "wbe"}, nil).failed(t, `There is no replica set "resumed/wbe"`, "Did you mean resumed/web?")
}

func TestAccResumeARolloutByMakingWorksAgain(t *testing.T) {
	o := someone(t, onHub)
	var first string
	playAgents(t, o, func(w *workv1.ManifestWork) bool {
		if first == "" {
			first = string(w.UID)
		}
		return string(w.UID) != first
	})
	stopped(t, o, "remade")
	resume := map[string]any{"namespace": "remade", "name": "web", "timeout": "2s"}
	got := invoke(t, "muster_resume_rollout", resume, nil)
	if got.failed(t, `The rollout of replica set "remade/web" has not gone on within 2s`, "in remade-a: ", "Degraded is True"); !strings.Contains(got.err.Error(), "recreate") {
		t.Errorf("the error has no remedy: %v", got.err)
	}
	resume["recreate"], resume["timeout"] = true, "30s"
	invoke(t, "muster_resume_rollout", resume, nil).said(t, "is deleted, and the hub makes it again", "remade-a: the work has recovered.", "The rollout of remade/web goes on")
}

// A rollout stops at its gate until somebody approves the group, and the approval is for
// what is rolled out at the time.
func TestAccApproveAndPauseARollout(t *testing.T) {
	o := someone(t, onHub)
	playAgents(t, o, func(*workv1.ManifestWork) bool { return true })
	gated(t, o, "gated", `[{"group":"1"}]`)
	set := &workv1alpha1.ManifestWorkReplicaSet{}
	total := func(n int) {
		t.Helper()
		o.Wait(set, "gated", "web", func() bool { return set.Status.Summary.Available == n })
	}
	total(1)
	o.Wait(set, "gated", "web", func() bool {
		c := meta.FindStatusCondition(set.Status.Conditions, muster.ConditionGatesOpen)
		return c != nil && c.Reason == muster.ReasonAwaitingApproval
	})
	object := map[string]any{"namespace": "gated", "name": "web", "group": "production"}
	invoke(t, "muster_approve_rollout", object, nil).failed(t,
		`The replica set gated/web has no gate before the group "production"`,
		"The groups that are to be approved are: 1.")
	object["group"] = "1"
	invoke(t, "muster_approve_rollout", object, nil).said(t, "The group 1 of replica set gated/web is approved, by ")
	total(2)
	invoke(t, "muster_approve_rollout", object, nil).said(t, "is approved already, by ", "Nothing is to be done.")

	paused := map[string]any{"namespace": "gated", "name": "web"}
	invoke(t, "muster_pause_rollout", paused, nil).said(t, "The rollout of replica set gated/web is paused.")
	invoke(t, "muster_pause_rollout", paused, nil).said(t, "is paused already")
	paused["undo"] = true
	invoke(t, "muster_pause_rollout", paused, nil).said(t, "The rollout of replica set gated/web goes on.")
	paused["name"] = "wbe"
	invoke(t, "muster_pause_rollout", paused, nil).failed(t, `There is no replica set "gated/wbe"`,
		"Did you mean gated/web?")
	invoke(t, "muster_approve_rollout", map[string]any{"name": "metrics", "group": "*"}, nil).failed(t,
		`There is no add-on "metrics"`)
}
