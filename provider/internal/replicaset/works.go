package replicaset

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/internal/workdigest"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

// What the works of a replica set say.

const (
	// worksPage is how many works are read at a time.
	worksPage = 250
	// shownObjects is how many objects of a work a sentence names.
	shownObjects = 3
)

// Works are the works of a replica set, by cluster and name. They come without their
// objects, which may be many times the same.
func Works(ctx context.Context, client *kube.Client, namespace, name string) ([]workv1.ManifestWork, error) {
	options, ok := worksOf(namespace, name)
	if !ok {
		return nil, nil // the hub can't make any
	}
	var works []workv1.ManifestWork
	err := client.Pages(ctx, &workv1.ManifestWorkList{}, options, worksPage, func(object kube.Object) bool {
		if w, ok := object.(*workv1.ManifestWork); ok {
			makeLean(w)
			works = append(works, *w)
		}
		return true
	})
	slices.SortFunc(works, func(a, b workv1.ManifestWork) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return works, err
}

// makeLean leaves out of a work what is not looked at, with the digest of its content in
// place of its objects.
func makeLean(w *workv1.ManifestWork) {
	w.ManagedFields, w.Spec.Workload = nil, workdigest.Lean(w.Spec).Workload
}

// worksOf selects the works of a replica set; ok is false where no label can name it.
func worksOf(namespace, name string) (options kube.ListOptions, ok bool) {
	label := replicaSetLabel(namespace, name)
	options.LabelSelector = work.ReplicaSetLabel + "=" + label
	return options, len(validation.IsValidLabelValue(label)) == 0
}

// WorkTrouble says why a work is not done, or "". What could not be applied is told in
// the words of the cluster's API server.
func WorkTrouble(w *workv1.ManifestWork) string {
	if workload.IsFinished(w) {
		return workload.FinishedAdvice
	}
	if refused := workload.RefusedObjects(w); len(refused) > 0 {
		return "it is not applied: " + refusedText(refused)
	}
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
		reasons = append(reasons, fmt.Sprintf("the agent has not reported on the present manifests yet (%s)",
			strings.Join(unreported, ", ")))
	}
	return strings.Join(reasons, "; ")
}

// refusedText names objects that an agent can't apply, with the reasons.
func refusedText(refused []workload.Refused) string {
	var texts []string
	for _, r := range refused {
		texts = append(texts, workload.Places(nil).Name(r.Meta)+": "+r.Message)
	}
	return strings.Join(text.First(texts, shownObjects), "; ")
}

// DescribeHeldUp lists what holds a rollout up: a gate, and works, if the hub answers soon.
func DescribeHeldUp(ctx context.Context, client *kube.Client, object replicaSet) []string {
	return append(describeGate(object), describeWorks(ctx, client, object)...)
}

// describeGate says what a rollout waits for that is held back; nothing when it is not.
func describeGate(object replicaSet) []string {
	c := meta.FindStatusCondition(object.Status.Conditions, muster.ConditionGatesOpen)
	if c == nil || c.Status != metav1.ConditionFalse {
		return nil
	}
	return []string{"It is held back: " + c.Message + "."}
}

func describeWorks(ctx context.Context, client *kube.Client, object replicaSet) []string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	works, err := Works(ctx, client, object.Namespace, object.Name)
	if err != nil {
		return []string{fmt.Sprintf("Its works could not be listed: %s.", err)}
	}
	if len(works) == 0 {
		return describeHeldUp(nil, nil)
	}
	return describeHeldUp(works, awayOf(ctx, client))
}

// awayOf are the clusters that are not available, as far as they may be read.
func awayOf(ctx context.Context, client *kube.Client) map[string]bool {
	away, clusters := map[string]bool{}, &clusterv1.ManagedClusterList{}
	if client.List(ctx, clusters, kube.ListOptions{}) != nil {
		return away
	}
	for _, c := range clusters.Items {
		away[c.Name] = !meta.IsStatusConditionTrue(c.Status.Conditions, cluster.ConditionAvailable)
	}
	return away
}

// describeHeldUp lists what keeps a replica set's works from being done, by cause, and
// tells of those that an upstream hub would never take for done. away are the
// clusters that are not available.
func describeHeldUp(works []workv1.ManifestWork, away map[string]bool) []string {
	if len(works) == 0 {
		return []string{"There are no works yet. Do the placements exist, and do they select clusters?"}
	}
	causes, held, silent := workload.Causes{}, 0, 0
	var failing []*workv1.ManifestWork
	for i := range works {
		w := &works[i]
		if trouble := WorkTrouble(w); trouble != "" {
			held++
			if away[w.Namespace] {
				trouble += "; the cluster is not available"
			}
			causes.Add(w.Namespace, trouble)
			failing = append(failing, w)
		} else if meta.FindStatusCondition(w.Status.Conditions, work.ConditionProgressing) == nil {
			silent++
		}
	}
	var text []string
	if held > 0 {
		text = append([]string{fmt.Sprintf("%d of %d works are not done:", held, len(works))}, causes.Lines()...)
		text = append(text, workload.Remedies(failing...)...)
	}
	if silent > 0 {
		text = append(text, fmt.Sprintf("%d works are applied and available, but their agents don't report the "+
			"condition Progressing. An upstream hub goes on only when it is False: add condition_rules that yield it.",
			silent))
	}
	return text
}

// mayFail reports whether the hub counts works that are not applied, so that it is
// worth reading them.
func mayFail(object replicaSet) bool {
	return object.Status.Summary.Applied < object.Status.Summary.Total
}

// warnOfFailures tells at a refresh which works could not be applied, by cause. It says
// nothing of works that their agents have yet to look at, nor where the works may not be
// read.
func warnOfFailures(
	ctx context.Context, client *kube.Client, object replicaSet, places workload.Places, diags *diag.Diagnostics,
) {
	if client == nil || !mayFail(object) {
		return
	}
	works, err := Works(ctx, client, object.Namespace, object.Name)
	if err != nil {
		return
	}
	if text := describeFailures(works, places); len(text) > 0 {
		text = append(text, "", "They keep trying. Correct the objects and apply, or look at what stands in their way:",
			"  "+listWorks(object))
		diags.AddWarning("Not applied: "+what(object), attribute.JoinLines(text))
	}
}

// describeFailures lists what agents can't apply, by cause; nil when there is nothing.
func describeFailures(works []workv1.ManifestWork, places workload.Places) []string {
	causes := workload.Causes{}
	var all []*workv1.ManifestWork
	for i := range works {
		all = append(all, &works[i])
		for _, r := range workload.RefusedObjects(&works[i]) {
			causes.Add(works[i].Namespace, places.Name(r.Meta)+": "+r.Message)
		}
	}
	if len(causes) == 0 {
		return nil
	}
	head := fmt.Sprintf("Of %d works, the agents can't apply all objects:", len(works))
	return slices.Concat([]string{head}, causes.Lines(), workload.Remedies(all...))
}

// listWorks is the command that lists the works.
func listWorks(object replicaSet) string {
	return fmt.Sprintf("kubectl get manifestworks -A -l %s=%s",
		work.ReplicaSetLabel, replicaSetLabel(object.Namespace, object.Name))
}

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
