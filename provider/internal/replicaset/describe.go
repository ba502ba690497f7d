package replicaset

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

// What is said about a replica set that isn't where it should be.

// shownWorks is how many works a diagnostic lists.
const shownWorks = 10

const replicaSetGate = "ManifestWorkReplicaSet"

// describeReplicaSet tells why a replica set is not what was waited for.
func describeReplicaSet(ctx context.Context, client *kube.Client, object *workv1alpha1.ManifestWorkReplicaSet, wanted string, timeout time.Duration) string {
	now := time.Now()
	lines := []string{fmt.Sprintf("Within %s generation %d did not reach what is waited for: %s. Conditions:", attribute.ShortDuration(timeout), object.Generation, wanted)}
	if len(object.Status.Conditions) == 0 {
		lines = append(lines, "  (no conditions: no controller has reported anything yet)",
			"", "Perhaps the hub makes no works of replica sets at all. "+replicaSetGateRemedy())
	} else {
		lines = append(lines, hub.DescribeConditions(object.Status.Conditions, now))
	}
	for _, p := range object.Status.PlacementsSummary {
		lines = append(lines, fmt.Sprintf("Placement %s: %s; %s", p.Name, p.AvailableDecisionGroups, DescribeSummary(p.Summary)))
	}
	lines = append(lines, DescribeHeldUp(ctx, client, object)...)
	lines = append(lines, "", "Next:", fmt.Sprintf("  kubectl describe manifestworkreplicaset -n %s %s", object.Namespace, object.Name),
		fmt.Sprintf("  kubectl get manifestworks -A -l %s=%s", work.ReplicaSetLabel, replicaSetLabel(object.Namespace, object.Name)))
	return attribute.JoinLines(lines)
}

func replicaSetGateRemedy() string {
	return fmt.Sprintf("Its feature gate has to be on: muster hub --feature-gates %s=true; on an upstream hub, in workConfiguration.featureGates of its ClusterManager.", replicaSetGate)
}

// DescribeSummary counts works in words.
func DescribeSummary(s workv1alpha1.ManifestWorkReplicaSetSummary) string {
	return fmt.Sprintf("works: %d, applied %d, available %d, progressing %d, degraded %d", s.Total, s.Applied, s.Available, s.Progressing, s.Degraded)
}

// DescribeHeldUp lists the works that hold a rollout up, if the hub
// answers soon.
func DescribeHeldUp(ctx context.Context, client *kube.Client, object *workv1alpha1.ManifestWorkReplicaSet) []string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	works, err := Works(ctx, client, object.Namespace, object.Name)
	if err != nil {
		return []string{fmt.Sprintf("Its works could not be listed: %s.", err)}
	}
	away := map[string]bool{}
	clusters := &clusterv1.ManagedClusterList{}
	if len(works) > 0 && client.List(ctx, clusters, kube.ListOptions{}) == nil {
		for _, c := range clusters.Items {
			away[c.Name] = !meta.IsStatusConditionTrue(c.Status.Conditions, cluster.ConditionAvailable)
		}
	}
	return describeHeldUp(works, away)
}

// describeHeldUp lists those of a replica set's works that are not done, and
// tells of those that an upstream hub would never take for done. away are the
// clusters that are not available.
func describeHeldUp(works []workv1.ManifestWork, away map[string]bool) []string {
	if len(works) == 0 {
		return []string{"There are no works yet. Do the placements exist, and do they select clusters?"}
	}
	var lines []string
	silent := 0
	for i := range works {
		w := &works[i]
		if trouble := WorkTrouble(w); trouble != "" {
			if away[w.Namespace] {
				trouble += "; the cluster is not available"
			}
			lines = append(lines, fmt.Sprintf("  %s: %s", workload.Qualified(w.Namespace, w.Name), trouble))
		} else if meta.FindStatusCondition(w.Status.Conditions, work.ConditionProgressing) == nil {
			silent++
		}
	}
	var text []string
	if total := len(lines); total > 0 {
		head := fmt.Sprintf("%d of %d works are not done:", total, len(works))
		if total > shownWorks {
			head = fmt.Sprintf("%d of %d works are not done; the first %d:", total, len(works), shownWorks)
			lines = lines[:shownWorks]
		}
		text = append(append(text, head), lines...)
	}
	if silent > 0 {
		text = append(text, fmt.Sprintf("%d works are applied and available, but their agents don't report the condition Progressing. An upstream hub goes on only when it is False: "+
			"add condition_rules that yield it.", silent))
	}
	return text
}

// WorkTrouble tells why a work is not done, or "".
func WorkTrouble(w *workv1.ManifestWork) string {
	var unreported, reasons []string
	for _, wanted := range []struct {
		attribute.WaitCondition
		needed bool
	}{
		{attribute.WaitCondition{Type: work.ConditionApplied, Status: metav1.ConditionTrue}, true},
		{attribute.WaitCondition{Type: work.ConditionAvailable, Status: metav1.ConditionTrue}, true},
		{attribute.WaitCondition{Type: work.ConditionProgressing, Status: metav1.ConditionFalse}, false},
		{attribute.WaitCondition{Type: work.ConditionDegraded, Status: metav1.ConditionFalse}, false},
	} {
		c := meta.FindStatusCondition(w.Status.Conditions, wanted.Type)
		switch {
		case c == nil && !wanted.needed:
		case c == nil, c.ObservedGeneration != 0 && c.ObservedGeneration < w.Generation:
			unreported = append(unreported, wanted.Type)
		case c.Status != wanted.Status:
			reasons = append(reasons, fmt.Sprintf("%s is %s (%s): %s", c.Type, c.Status, c.Reason, c.Message))
		}
	}
	if len(unreported) > 0 {
		reasons = append(reasons, "the agent has not reported on the present manifests yet ("+strings.Join(unreported, ", ")+")")
	}
	return strings.Join(reasons, "; ")
}

// Works are the works of a replica set, by cluster and name.
func Works(ctx context.Context, client *kube.Client, namespace, name string) ([]workv1.ManifestWork, error) {
	label := replicaSetLabel(namespace, name)
	if len(validation.IsValidLabelValue(label)) > 0 {
		return nil, nil // the hub can't make any
	}
	list := &workv1.ManifestWorkList{}
	if err := client.List(ctx, list, kube.ListOptions{LabelSelector: work.ReplicaSetLabel + "=" + label}); err != nil {
		return nil, err
	}
	slices.SortFunc(list.Items, func(a, b workv1.ManifestWork) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return list.Items, nil
}

// describeReplicaSetDeletion tells what keeps a replica set that should be gone.
func describeReplicaSetDeletion(ctx context.Context, client *kube.Client, object *workv1alpha1.ManifestWorkReplicaSet, timeout time.Duration) string {
	lines := []string{
		fmt.Sprintf("The replica set was still there %s after its deletion was asked for.", attribute.ShortDuration(timeout)),
		hub.DescribeDeletion(object, time.Now()),
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	works, err := Works(ctx, client, object.Namespace, object.Name)
	switch {
	case err != nil:
		lines = append(lines, fmt.Sprintf("Its works could not be listed: %s.", err))
	case len(works) == 0:
		lines = append(lines, "None of its works is left, so that the hub only has to take its finalizer off. "+replicaSetGateRemedy())
	default:
		lines = append(lines, fmt.Sprintf("Works that are left: %d. Their agents have to remove the objects first:", len(works)))
		for _, w := range works[:min(len(works), shownWorks)] {
			lines = append(lines, "  "+workload.Qualified(w.Namespace, w.Name))
		}
	}
	lines = append(lines, "", "Apply again when the agents are back. To let the replica set go now, give its finalizer up; works that are left then have to be deleted by hand:",
		fmt.Sprintf("  kubectl patch manifestworkreplicaset -n %s %s --type=merge -p '{\"metadata\":{\"finalizers\":null}}'", object.Namespace, object.Name))
	return attribute.JoinLines(lines)
}
