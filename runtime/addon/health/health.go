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
