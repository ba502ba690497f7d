package replicaset

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

// What is said about a replica set that isn't where it should be.

// describeRollout describes the works of a replica set that is not rolled out.
func describeRollout(ctx context.Context, client *kube.Client, object replicaSet) []string {
	var lines []string
	if len(object.Status.Conditions) == 0 {
		lines = append(lines, "", "Perhaps the hub makes no works of replica sets at all. "+replicaSetGateRemedy())
	}
	for _, p := range object.Status.PlacementsSummary {
		lines = append(lines, fmt.Sprintf("Placement %s: %s; %s",
			p.Name, p.AvailableDecisionGroups, DescribeSummary(p.Summary)))
	}
	return append(lines, DescribeHeldUp(ctx, client, object)...)
}

// whyGivenUp tells why a wait ended before its timeout.
func whyGivenUp(err *kube.GaveUpError) []string {
	if strings.HasPrefix(err.Text, stoppedIn) {
		return []string{"The rollout has stopped: too many clusters have failed, or were not done within " +
			"progress_deadline. Clusters that it has not reached keep what they have. So the wait ended before its " +
			"timeout."}
	}
	return []string{fmt.Sprintf("An agent can't apply the manifests, and has reported the same errors for %s, "+
		"so the wait ended before its timeout. The rollout goes on where it can. Correct the manifests, or what "+
		"stands in their way in the cluster.", attribute.ShortDuration(err.After))}
}

func replicaSetGateRemedy() string {
	return "Its feature gate has to be on: muster hub --feature-gates ManifestWorkReplicaSet=true; on an upstream " +
		"hub, in workConfiguration.featureGates of its ClusterManager."
}

// DescribeSummary counts works in words.
func DescribeSummary(s workv1alpha1.ManifestWorkReplicaSetSummary) string {
	return fmt.Sprintf("works: %d, applied %d, available %d, progressing %d, degraded %d",
		s.Total, s.Applied, s.Available, s.Progressing, s.Degraded)
}

// describeReplicaSetDeletion tells what keeps a replica set that should be gone.
func describeReplicaSetDeletion(
	ctx context.Context, client *kube.Client, object replicaSet, timeout time.Duration,
) string {
	lines := []string{
		fmt.Sprintf("The replica set was still there %s after its deletion was asked for.",
			attribute.ShortDuration(timeout)),
		hub.DescribeDeletion(object, time.Now()),
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	works, err := Works(ctx, client, object.Namespace, object.Name)
	switch {
	case err != nil:
		lines = append(lines, fmt.Sprintf("Its works could not be listed: %s.", err))
	case len(works) == 0:
		lines = append(lines, "None of its works is left, so that the hub only has to take its finalizer off. "+
			replicaSetGateRemedy())
	default:
		lines = append(lines, describeLeft(works, awayOf(ctx, client))...)
	}
	return attribute.JoinLines(append(lines, "", "Apply again when they are gone. "+
		"A cluster that is gone for good has to leave the fleet, and its works with it: muster detach CLUSTER --force"))
}

// describeLeft lists works that should be gone, and what keeps them. away are the
// clusters that are not available.
func describeLeft(works []workv1.ManifestWork, away map[string]bool) []string {
	lines := []string{fmt.Sprintf("Works that are left: %d.", len(works))}
	causes := workload.Causes{}
	for i := range works {
		w := &works[i]
		cause := "the agent has to remove the objects first"
		switch others := hub.HeldByOthers(w); {
		case w.DeletionTimestamp == nil:
			cause = "its deletion has not begun"
		case hub.HeldByOthersOnly(w):
			cause = "somebody's finalizer keeps it, whose controller has to be repaired: " + strings.Join(others, ", ")
		case len(others) > 0:
			cause += ", and so has the controller of " + strings.Join(others, ", ")
		}
		if away[w.Namespace] {
			cause += "; the cluster is not available"
		}
		causes.Add(w.Namespace, cause)
	}
	return append(lines, causes.Lines()...)
}
