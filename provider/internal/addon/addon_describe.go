package addon

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/replicaset"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/configs"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/rollout"
)

// What is said about an add-on that isn't where it should be.

// describe says what holds up an add-on that is waited for, in which clusters.
func (a *awaited) describe(ctx context.Context) []string {
	var lines []string
	if configs.SelfManaged(a.object) {
		lines = append(lines, fmt.Sprintf("Its annotation %s says that it is managed by a manager of its own, "+
			"so the hub neither installs nor configures it.", addon.LifecycleAnnotation))
	}
	if !a.wait.RolledOut.ValueBool() {
		lines = append(lines, notRolledOut(a.object, a.hashes)...)
	}
	works, err := worksOf(ctx, a.client, a.object.Name)
	if err != nil {
		lines = append(lines, fmt.Sprintf("Its works could not be listed: %s.", err))
	}
	lines = append(lines, describeClusters(a.object, a.addOns, works)...)
	if selected, err := decidedFor(ctx, a.client, a.object); err == nil {
		if absent := a.absent(selected); len(absent) > 0 {
			lines = append(lines, "Selected, and without the add-on yet: "+some(absent)+".")
		} else if len(selected) == 0 {
			lines = append(lines, "The placements select no cluster. Is a cluster set bound to their namespaces? "+
				"The data source muster_placement_preview says why.")
		}
	}
	return lines
}

// describeClusters lists the clusters that hold an add-on up, and why, and those that
// wait for their turn. works may be nil.
func describeClusters(object fleetAddOn, addOns []clusterAddOn, works map[string][]workv1.ManifestWork) []string {
	var lines, waiting []string
	deadline, limited := deadlineOf(object.Spec.InstallStrategy)
	now, gaveUp := time.Now(), false
	for _, x := range addOns {
		if meta.IsStatusConditionFalse(x.Status.Conditions, addon.ConditionConfigured) {
			waiting = append(waiting, x.Namespace)
			continue
		}
		trouble := troubleOf(x, now)
		if trouble == "" {
			continue
		}
		if late(x, deadline, now) {
			gaveUp = true
			trouble += fmt.Sprintf("; that is longer than progress_deadline (%s), so the rollout has given up on "+
				"it", attribute.ShortDuration(deadline))
		}
		lines = append(lines, fmt.Sprintf("  %s: %s", x.Namespace, trouble))
		lines = append(lines, describeWorks("    ", works[x.Namespace])...)
	}
	var described []string
	if len(lines) > 0 {
		described = append(described, "Clusters that hold it up:")
		described = append(described, text.First(lines, 2*shownClusters)...)
	}
	if len(waiting) > 0 {
		why := "Clusters that wait for their turn: "
		if gaveUp && limited {
			why = "The rollout has stopped, because more clusters have failed than max_failures allows. Clusters " +
				"that it has not reached, and that keep what they have: "
		}
		described = append(described, why+some(waiting)+".")
	}
	return described
}

// describeWorks says of the works that are not done why, indented.
func describeWorks(indent string, works []workv1.ManifestWork) []string {
	var lines []string
	for _, w := range works {
		if why := replicaset.WorkTrouble(&w); why != "" {
			lines = append(lines, fmt.Sprintf("%swork %s: %s", indent, workload.Qualified(w.Namespace, w.Name), why))
		}
	}
	return lines
}

// addOnProblem is troubleOf without times, so that it changes only with the add-on.
func addOnProblem(x clusterAddOn) string {
	if meta.IsStatusConditionFalse(x.Status.Conditions, addon.ConditionConfigured) {
		return "it waits for its turn to get the present configuration"
	}
	return troubleOf(x, time.Time{})
}

// troubleOf says why an add-on in a cluster is not as it should be, and, unless now is
// zero, since when; "" where it is.
func troubleOf(x clusterAddOn, now time.Time) string {
	if x.DeletionTimestamp != nil {
		return "it is being removed"
	}
	var reasons []string
	check := func(kind string, fine func(metav1.Condition) bool) {
		if c := meta.FindStatusCondition(x.Status.Conditions, kind); c != nil && !fine(*c) {
			reasons = append(reasons, strings.TrimSuffix(hub.DescribeCondition(*c, now), "."))
		}
	}
	isTrue := func(c metav1.Condition) bool { return c.Status == metav1.ConditionTrue }
	check(addon.ConditionManifestApplied, isTrue)
	check(addon.ConditionHostingManifestApplied, isTrue)
	check("RegistrationApplied", isTrue)
	check(addon.ConditionProgressing, isCompleted)
	check(addon.ConditionAvailable, isTrue)
	if meta.FindStatusCondition(x.Status.Conditions, addon.ConditionAvailable) == nil {
		reasons = append(reasons, "nothing reports Available yet")
	}
	return strings.Join(reasons, "; ")
}

// deadlineOf is the shortest progress deadline of the placements, 0 for none, and
// whether a strategy stops for failures.
func deadlineOf(strategy v1alpha1.InstallStrategy) (deadline time.Duration, limited bool) {
	for _, p := range strategy.Placements {
		d, timed, err := rollout.Deadline(p.RolloutStrategy)
		if timed && err == nil && (deadline == 0 || d < deadline) {
			deadline = d
		}
		kind := p.RolloutStrategy.Type
		limited = limited || kind != "" && kind != clusterv1alpha1.RolloutTypeAll
	}
	return deadline, limited
}

// late reports whether an add-on has been progressing for longer than a deadline.
func late(x clusterAddOn, deadline time.Duration, now time.Time) bool {
	c := meta.FindStatusCondition(x.Status.Conditions, addon.ConditionProgressing)
	return deadline > 0 && c != nil && c.Reason != addon.ReasonCompleted &&
		now.After(c.LastTransitionTime.Add(deadline))
}

// worksNamed selects the works of an add-on.
func worksNamed(name string) kube.ListOptions {
	return kube.ListOptions{LabelSelector: cluster.AddOnNameLabel + "=" + name}
}

// worksOf are the works of an add-on, by cluster.
func worksOf(ctx context.Context, client *kube.Client, name string) (map[string][]workv1.ManifestWork, error) {
	list := &workv1.ManifestWorkList{}
	if err := client.List(ctx, list, worksNamed(name)); err != nil {
		return nil, err
	}
	works := map[string][]workv1.ManifestWork{}
	for _, w := range list.Items {
		works[w.Namespace] = append(works[w.Namespace], w)
	}
	return works, nil
}

// notRemoved says what keeps the add-on name in clusters from which it should be gone.
func notRemoved(
	ctx context.Context, client *kube.Client, what, name string, left []clusterAddOn, timeout time.Duration,
) (summary, detail string) {
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), hub.ReadBudget)
	defer cancel()
	works, _ := worksOf(asking, client, name) // The rest of the message does without them.
	return "Not removed yet: " + what, describeRemoval(left, works, timeout, time.Now())
}

// describeRemoval says what keeps an add-on in clusters from which it should be gone.
func describeRemoval(
	left []clusterAddOn, works map[string][]workv1.ManifestWork, timeout time.Duration, now time.Time,
) string {
	lines := []string{fmt.Sprintf("%s after its deletion was asked for, the add-on was still in %d clusters:",
		attribute.ShortDuration(timeout), len(left))}
	for _, x := range left[:min(len(left), shownClusters)] {
		lines = append(lines, "  "+x.Namespace+":", hub.DescribeDeletion(x, now))
		said := ""
		c := meta.FindStatusCondition(x.Status.Conditions, addon.ConditionHookManifestCompleted)
		if c != nil && c.Status != metav1.ConditionTrue {
			said = c.Message
			lines = append(lines, "  The hub says: "+said)
		}
		for _, w := range works[x.Namespace] {
			lines = append(lines, describeLeftWork(x.Name, &w, said)...)
		}
	}
	if more := len(left) - shownClusters; more > 0 {
		lines = append(lines, fmt.Sprintf("  and %d more", more))
	}
	return attribute.JoinLines(append(lines, "",
		"The hub goes on by itself: the jobs of the add-on have to complete, and the agents have to be connected to "+
			"remove its objects. Keep its template and configurations until then. Apply again to wait for it."))
}

// describeLeftWork tells of a work that runs when the add-on is removed which of its jobs
// and pods have not completed, and of another that it is there. What the hub has said of
// one, such as that it has failed, is not said again.
func describeLeftWork(name string, w *workv1.ManifestWork, said string) []string {
	if !strings.HasPrefix(w.Name, addon.PreDeleteWorkName(name)) {
		return []string{fmt.Sprintf("  work %s is still there", workload.Qualified(w.Namespace, w.Name))}
	}
	var lines []string
	for _, m := range w.Status.ResourceStatus.Manifests {
		kind, name := m.ResourceMeta.Kind, m.ResourceMeta.Name
		if kind != "Job" && kind != "Pod" || name != "" && strings.Contains(said, name) {
			continue
		}
		state := "has not reported anything"
		for _, v := range m.StatusFeedbacks.Values {
			if v.Value.String != nil && (v.Name == "JobComplete" || v.Name == "PodPhase") {
				state = fmt.Sprintf("reports %s = %s", v.Name, *v.Value.String)
			}
		}
		if !strings.HasSuffix(state, "JobComplete = True") && !strings.HasSuffix(state, "PodPhase = Succeeded") {
			lines = append(lines, fmt.Sprintf("  %s %s has to complete before the add-on goes, and %s",
				kind, workload.Qualified(m.ResourceMeta.Namespace, name), state))
		}
	}
	if len(lines) == 0 && said == "" {
		lines = []string{fmt.Sprintf("  work %s, which runs before the add-on goes, has not been reported "+
			"on", workload.Qualified(w.Namespace, w.Name))}
	}
	return lines
}
