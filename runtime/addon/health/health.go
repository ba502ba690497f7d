// Package health decides the health of an add-on in a cluster, as far as its manager
// does: the condition Available, from the add-on's works and the fields that the
// cluster's agent reports of their objects. It is pure. Reasons and messages are those
// of Open Cluster Management.
//
// How health is found out is a Prober. Add-ons from templates have
// WorkloadAvailability: each of their Deployments and DaemonSets has to run. Of add-ons
// that renew a lease in their cluster, the cluster's agent reports the health.
package health

import (
	"cmp"
	"errors"
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

// Type is a way to find out an add-on's health.
type Type string

// The ways.
const (
	// Lease leaves it to the agent of the cluster, which watches the add-on's lease.
	Lease Type = "Lease"
	// None leaves it to somebody else.
	None Type = "None"
	// Work looks at the add-on's works, and at fields of objects that a Probe names.
	Work Type = "Work"
	// DeploymentAvailability wants the Deployments of the add-on to run.
	DeploymentAvailability Type = "DeploymentAvailability"
	// WorkloadAvailability wants its Deployments and DaemonSets to run.
	WorkloadAvailability Type = "WorkloadAvailability"
)

// Prober is how an add-on's health is found out.
type Prober struct {
	// Type is Lease if it is empty.
	Type Type
	// Probe is for the type Work. Without one the add-on counts as available as soon as
	// its manager looks at it.
	Probe *Probe
}

// Probe looks at objects of an add-on.
type Probe struct {
	// Objects are those whose reported fields count; * in their names and namespaces
	// stands for any text. The works have to report fields of them.
	Objects []workv1.ResourceIdentifier
	// Check says what is wrong with what is reported. It gets all that is there, in the
	// order of Objects, and at least one if there are Objects. Nil finds nothing wrong.
	Check func([]Report) error
}

// Report is what the cluster's agent reports of an object.
type Report struct {
	Object workv1.ResourceIdentifier
	Values []workv1.FeedbackValue
}

// Mode is what belongs into status.healthCheck.mode of an add-on: Lease where the
// cluster's agent is to watch a lease, and Customized where it is to stay out.
func (p Prober) Mode() v1alpha1.HealthCheckMode {
	switch p.Type {
	case None, Work, DeploymentAvailability, WorkloadAvailability:
		return v1alpha1.HealthCheckModeCustomized
	}
	return v1alpha1.HealthCheckModeLease
}

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
// condition has to stay as it is: it is another's, or the add-on's manifests have not
// been handed out yet, or nobody has heard from the cluster. Then the hub says so of all
// of its add-ons.
func (p Prober) Available(in Input) (c metav1.Condition, known bool) {
	probe := p.Probe
	switch p.Type {
	case Work:
		if probe == nil {
			return condition(metav1.ConditionTrue, addon.ReasonWorkApplied, addon.MessageWorkApplied), true
		}
	case DeploymentAvailability, WorkloadAvailability:
		probe = &Probe{Objects: workloads(in.Objects, p.Type == WorkloadAvailability), Check: run}
	default:
		return c, false
	}
	if meta.FindStatusCondition(in.AddOn.Status.Conditions, addon.ConditionManifestApplied) == nil || isSilent(in.Cluster) {
		return c, false
	}
	return available(in, probe), true
}

func isSilent(c *clusterv1.ManagedCluster) bool {
	return c != nil && meta.IsStatusConditionPresentAndEqual(c.Status.Conditions, cluster.ConditionAvailable, metav1.ConditionUnknown)
}

func available(in Input, probe *Probe) metav1.Condition {
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
	reports := reportsOf(probe.Objects, works)
	if len(probe.Objects) > 0 && len(reports) == 0 {
		return condition(metav1.ConditionUnknown, addon.ReasonNoProbeResult, addon.MessageNoProbeResult)
	}
	if probe.Check != nil {
		if err := probe.Check(reports); err != nil {
			return condition(metav1.ConditionFalse, addon.ReasonProbeUnavailable, unavailable(err, works))
		}
	}
	return condition(metav1.ConditionTrue, addon.ReasonProbeAvailable, in.AddOn.Name+" add-on is available.")
}

// unavailable says why an add-on does not run. Of its own agents' workloads it says what
// their clusters' agents know beside the numbers, such as which pod can't pull its image.
func unavailable(err error, works []*workv1.ManifestWork) string {
	var workload notRunningError
	if !errors.As(err, &workload) {
		return fmt.Sprintf("Probe addon unavailable with err %v", err)
	}
	for _, w := range works {
		if why := Moving(w); why != "" {
			return workload.Error() + ". " + why
		}
	}
	return workload.Error()
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
func reportsOf(objects []workv1.ResourceIdentifier, works []*workv1.ManifestWork) (out []Report) {
	for _, id := range objects {
		for _, w := range works {
			for i := range w.Status.ResourceStatus.Manifests {
				m := &w.Status.ResourceStatus.Manifests[i]
				of := m.ResourceMeta
				if isSeen(m) && id.Matches(of.Group, of.Resource, of.Namespace, of.Name) {
					out = append(out, Report{
						Object: workv1.ResourceIdentifier{Group: of.Group, Resource: of.Resource, Namespace: of.Namespace, Name: of.Name},
						Values: m.StatusFeedbacks.Values,
					})
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
func workloads(objects []*unstructured.Unstructured, withDaemonSets bool) (out []workv1.ResourceIdentifier) {
	for _, o := range objects {
		gvk, resource := o.GroupVersionKind(), ""
		switch {
		case gvk.Group != "apps":
		case gvk.Kind == "Deployment" && !isZero(o):
			resource = deployments
		case gvk.Kind == "DaemonSet" && withDaemonSets:
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

// run says which workload does not run: a Deployment needs one ready pod, unless it is
// to have none, and a DaemonSet one on each of its nodes.
func run(reports []Report) error {
	for _, r := range reports {
		if err := runs(r); err != nil {
			return err
		}
	}
	return nil
}

// notRunningError says which workload does not run, in words of its own.
type notRunningError string

func (e notRunningError) Error() string { return string(e) }

// runs looks at one workload. Kubernetes leaves out the number of ready pods of a
// Deployment, and of its pods, when it is 0.
func runs(r Report) error {
	ready, desired, kind := "ReadyReplicas", "Replicas", "Deployment"
	if r.Object.Resource == daemonSets {
		ready, desired, kind = "NumberReady", "DesiredNumberScheduled", "DaemonSet"
	}
	have, _ := integer(r.Values, ready)
	total, reported := integer(r.Values, desired)
	want, specified := integer(r.Values, addon.FeedbackWant)
	if !specified {
		want = total
	}
	_, counted := integer(r.Values, ready)
	switch {
	case kind == "Deployment" && have >= 1 && reported,
		have == total && reported && counted,
		specified && want == 0 && have == 0 && total == 0:
		return nil
	case !reported && !specified:
		return notRunningError(fmt.Sprintf("%d replicas of the %s %s/%s are ready, and how many there are to be is not reported", have, kind, r.Object.Namespace, r.Object.Name))
	}
	return notRunningError(fmt.Sprintf("%d of %d replicas of the %s %s/%s are ready", have, want, kind, r.Object.Namespace, r.Object.Name))
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
