package health

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-fleet/terraform-provider-muster/internal/rolloutstatus"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// statefulSets is the resource of StatefulSets. Their health is not looked at, but a
// rollout waits for them.
const statefulSets = "statefulsets"

// RolloutRules are the resource of a kind of workload and the feedback rules by which
// Rollout knows how far one is; empty for other kinds. Beside the well-known fields,
// which health is derived from, they name fields by path, so that every agent reports them.
func RolloutRules(kind schema.GroupKind) (resource string, rules []workv1.FeedbackRule) {
	if !rolloutstatus.IsWorkload(kind) {
		return "", nil
	}
	wellKnown := workv1.FeedbackRule{Type: workv1.FeedbackTypeWellKnownStatus}
	switch kind.Kind {
	case rolloutstatus.Deployment:
		return deployments, []workv1.FeedbackRule{wellKnown, paths(
			addon.FeedbackWant, ".spec.replicas", addon.FeedbackUpdated, ".status.updatedReplicas",
			addon.FeedbackGaveUp, `.status.conditions[?(@.reason=="ProgressDeadlineExceeded")].message`,
			addon.FeedbackNoPods, `.status.conditions[?(@.type=="ReplicaFailure")].message`,
		)}
	case rolloutstatus.DaemonSet:
		return daemonSets, []workv1.FeedbackRule{wellKnown, paths(
			addon.FeedbackUpdated, ".status.updatedNumberScheduled", addon.FeedbackStrategy, ".spec.updateStrategy.type",
		)}
	case rolloutstatus.StatefulSet:
		return statefulSets, []workv1.FeedbackRule{paths(
			addon.FeedbackWant, ".spec.replicas", addon.FeedbackUpdated, ".status.updatedReplicas",
			addon.FeedbackReady, ".status.readyReplicas",
			addon.FeedbackStrategy, ".spec.updateStrategy.type", addon.FeedbackPartition, ".spec.updateStrategy.rollingUpdate.partition",
		)}
	}
	return "", nil
}

// paths is the rule for a generation, the one that the controller has seen, and further
// names with their paths.
func paths(more ...string) workv1.FeedbackRule {
	rule := workv1.FeedbackRule{Type: workv1.FeedbackTypeJSONPaths, JSONPaths: []workv1.JSONPath{
		{Name: addon.FeedbackGeneration, Path: ".metadata.generation"}, {Name: addon.FeedbackObserved, Path: ".status.observedGeneration"},
	}}
	for i := 0; i < len(more); i += 2 {
		rule.JSONPaths = append(rule.JSONPaths, workv1.JSONPath{Name: more[i], Path: more[i+1]})
	}
	return rule
}

// Rollout is how far a workload is, by what a work reports of it. known is false for
// other objects, and where no generation is reported.
func Rollout(m *workv1.ManifestCondition) (s rolloutstatus.Status, known bool) {
	values := m.StatusFeedbacks.Values
	generation, known := integer(values, addon.FeedbackGeneration)
	if !known || m.ResourceMeta.Group != "apps" {
		return s, false
	}
	number := func(name string) int64 { // Kubernetes leaves most out that are 0
		n, _ := integer(values, name)
		return n
	}
	c := rolloutstatus.Counts{
		Generation: generation, Observed: number(addon.FeedbackObserved), Want: number(addon.FeedbackWant), Updated: number(addon.FeedbackUpdated),
		GaveUp: text(values, addon.FeedbackGaveUp), NoPods: text(values, addon.FeedbackNoPods),
	}
	var kind string
	switch m.ResourceMeta.Resource {
	case deployments:
		kind, c.Total, c.Ready, c.Available = rolloutstatus.Deployment, number("Replicas"), number("ReadyReplicas"), number("AvailableReplicas")
	case daemonSets:
		kind, c.Want, c.Ready, c.Available = rolloutstatus.DaemonSet, number("DesiredNumberScheduled"), number("NumberReady"), number("NumberAvailable")
	case statefulSets:
		kind, c.Ready = rolloutstatus.StatefulSet, number(addon.FeedbackReady)
	default:
		return s, false
	}
	c.ToUpdate = max(0, c.Want-number(addon.FeedbackPartition))
	if text(values, addon.FeedbackStrategy) == "OnDelete" {
		c.ToUpdate = 0
	}
	return rolloutstatus.OfCounts(kind, c), true
}

// text is the last reported text of a name.
func text(values []workv1.FeedbackValue, name string) (s string) {
	for _, v := range values {
		if v.Name == name && v.Value.String != nil {
			s = *v.Value.String
		}
	}
	return s
}
