// Package health decides the health of an add-on from a template, the condition
// Available: each of its Deployments and DaemonSets has to run, by the add-on's works and
// the fields that the cluster's agent reports of their objects. It is pure. Reasons and
// messages are those of Open Cluster Management.
package health

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-fleet/terraform-provider-muster/internal/rolloutstatus"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// Input is what an add-on's health is derived from.
type Input struct {
	AddOn *v1alpha1.ManagedClusterAddOn
	// Cluster is the add-on's, nil where it is not known.
	Cluster *clusterv1.ManagedCluster
	// Works are those of the add-on in any order. Works for its deletion, and works
	// that are being deleted, do not count.
	Works []*workv1.ManifestWork
	// Objects are those that the add-on consists of in the cluster, as rendered.
	Objects []*unstructured.Unstructured
}

// Available is the condition Available of an add-on. It is not known where the
// condition has to stay as it is: the add-on's manifests have not been handed out yet, or
// nobody has heard from the cluster. Then the hub says so of all of its add-ons.
func Available(in Input) (c metav1.Condition, known bool) {
	if meta.FindStatusCondition(in.AddOn.Status.Conditions, addon.ConditionManifestApplied) == nil || isSilent(in.Cluster) {
		return c, false
	}
	return available(in), true
}

func isSilent(c *clusterv1.ManagedCluster) bool {
	return c != nil && meta.IsStatusConditionPresentAndEqual(c.Status.Conditions, cluster.ConditionAvailable, metav1.ConditionUnknown)
}

func available(in Input) metav1.Condition {
	works := deployed(in.AddOn.Name, in.Works)
	if len(works) == 0 {
		return condition(metav1.ConditionUnknown, addon.ReasonWorkNotFound, addon.MessageWorkNotFound)
	}
	for _, w := range works {
		switch of := meta.FindStatusCondition(w.Status.Conditions, work.ConditionAvailable); {
		case of == nil:
			return condition(metav1.ConditionUnknown, addon.ReasonWorkNotApplied, addon.MessageWorkNotApplied)
		case of.Status == metav1.ConditionFalse:
			return condition(metav1.ConditionFalse, addon.ReasonWorkNotApplied, of.Message)
		}
	}
	objects := workloads(in.Objects)
	reports := reportsOf(objects, works)
	if len(objects) > 0 && len(reports) == 0 {
		return condition(metav1.ConditionUnknown, addon.ReasonNoProbeResult, addon.MessageNoProbeResult)
	}
	for _, r := range reports {
		if why := notRunning(r); why != "" {
			return condition(metav1.ConditionFalse, addon.ReasonProbeUnavailable, unavailable(why, works))
		}
	}
	return condition(metav1.ConditionTrue, addon.ReasonProbeAvailable, in.AddOn.Name+" add-on is available.")
}

// unavailable says why an add-on does not run, with what the clusters' agents know beside
// the numbers, such as which pod can't pull its image.
func unavailable(workload string, works []*workv1.ManifestWork) string {
	for _, w := range works {
		if why := Moving(w); why != "" {
			return workload + ". " + why
		}
	}
	return workload
}

// Moving is what a cluster's agent says of the objects of a work that are not yet as they
// should be; empty when it says nothing of the work as it is now.
func Moving(w *workv1.ManifestWork) string {
	c := meta.FindStatusCondition(w.Status.Conditions, work.ConditionProgressing)
	if c == nil || c.Status != metav1.ConditionTrue || c.ObservedGeneration != w.Generation {
		return ""
	}
	return c.Message
}

func condition(status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: addon.ConditionAvailable, Status: status, Reason: reason, Message: message}
}

// deployed are the works that count, in the order of their names: what is wrong with the
// first of them is what is said.
func deployed(addOn string, works []*workv1.ManifestWork) []*workv1.ManifestWork {
	var out []*workv1.ManifestWork
	for _, w := range works {
		if w.DeletionTimestamp == nil && strings.HasPrefix(w.Name, addon.DeployWorkName(addOn)+"-") {
			out = append(out, w)
		}
	}
	slices.SortFunc(out, func(a, b *workv1.ManifestWork) int {
		return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Name, b.Name)) // -2 before -10
	})
	return out
}

// reportsOf is what works report of objects. Those that nothing is reported of are left
// out: some are enough.
func reportsOf(objects []workv1.ResourceIdentifier, works []*workv1.ManifestWork) (out []*workv1.ManifestCondition) {
	for _, id := range objects {
		for _, w := range works {
			for i := range w.Status.ResourceStatus.Manifests {
				m := &w.Status.ResourceStatus.Manifests[i]
				of := m.ResourceMeta
				if isSeen(m) && id.Matches(of.Group, of.Resource, of.Namespace, of.Name) {
					out = append(out, m)
				}
			}
		}
	}
	return out
}

// isSeen reports whether something is reported of an object's status. The generation of
// a workload is there before its controller has seen it.
func isSeen(m *workv1.ManifestCondition) bool {
	values := m.StatusFeedbacks.Values
	if generation, counted := integer(values, addon.FeedbackGeneration); counted {
		observed, _ := integer(values, addon.FeedbackObserved)
		return observed > 0 && generation > 0
	}
	return len(values) > 0
}

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

// Resources of the group apps whose health the agents report.
const (
	deployments = "deployments"
	daemonSets  = "daemonsets"
)

// workloads are the Deployments among objects that are to have pods, and the DaemonSets.
func workloads(objects []*unstructured.Unstructured) (out []workv1.ResourceIdentifier) {
	for _, o := range objects {
		gvk, resource := o.GroupVersionKind(), ""
		switch {
		case gvk.Group != "apps":
		case gvk.Kind == "Deployment" && !isZero(o):
			resource = deployments
		case gvk.Kind == "DaemonSet":
			resource = daemonSets
		}
		if resource != "" {
			out = append(out, workv1.ResourceIdentifier{Group: gvk.Group, Resource: resource, Namespace: o.GetNamespace(), Name: o.GetName()})
		}
	}
	return out
}

// isZero reports whether a Deployment is to have no pods.
func isZero(o *unstructured.Unstructured) bool {
	replicas, found, err := unstructured.NestedFieldNoCopy(o.Object, "spec", "replicas")
	return err == nil && found && (replicas == int64(0) || replicas == float64(0))
}

// notRunning says what a workload lacks, "" for one that runs: a Deployment needs one ready
// pod, unless it is to have none, and a DaemonSet one on each of its nodes. Kubernetes
// leaves out the number of ready pods of a Deployment, and of its pods, when it is 0.
func notRunning(m *workv1.ManifestCondition) string {
	values, of := m.StatusFeedbacks.Values, m.ResourceMeta
	ready, desired, kind := "ReadyReplicas", "Replicas", "Deployment"
	if of.Resource == daemonSets {
		ready, desired, kind = "NumberReady", "DesiredNumberScheduled", "DaemonSet"
	}
	have, counted := integer(values, ready)
	total, reported := integer(values, desired)
	want, specified := integer(values, addon.FeedbackWant)
	if !specified {
		want = total
	}
	name := fmt.Sprintf("replicas of the %s %s/%s are ready", kind, of.Namespace, of.Name)
	switch {
	case kind == "Deployment" && have >= 1 && reported,
		have == total && reported && counted,
		specified && want == 0 && have == 0 && total == 0:
		return ""
	case !reported && !specified:
		return fmt.Sprintf("%d %s, and how many there are to be is not reported", have, name)
	}
	return fmt.Sprintf("%d of %d %s", have, want, name)
}

// integer is the last reported value of a name.
func integer(values []workv1.FeedbackValue, name string) (n int64, found bool) {
	for _, v := range values {
		if v.Name == name && v.Value.Integer != nil {
			n, found = *v.Value.Integer, true
		}
	}
	return n, found
}
