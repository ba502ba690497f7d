package status

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/event"
)

// availabilityEvent is the event for the hub when the availability of a cluster
// has changed, or nil when it has not.
//
// No recorder makes it: those of client-go name the machine as the reporting instance,
// where upstream's agents name themselves.
func availabilityEvent(old, new *clusterv1.ManagedCluster, instance string, clk clock.PassiveClock) *eventsv1.Event {
	was := meta.FindStatusCondition(old.Status.Conditions, cluster.ConditionAvailable)
	is := meta.FindStatusCondition(new.Status.Conditions, cluster.ConditionAvailable)
	if is == nil || was != nil && was.Status == is.Status {
		return nil
	}
	kind, reason, format := corev1.EventTypeNormal, cluster.ReasonEventAvailable, cluster.FormatEventAvailable
	if is.Status != metav1.ConditionTrue {
		kind, reason, format = corev1.EventTypeWarning, cluster.ReasonEventUnavailable, cluster.FormatEventUnavailable
	}
	source := event.Source{Controller: cluster.AgentReportingController, Instance: instance, Clock: clk}
	e := source.New(corev1.ObjectReference{
		APIVersion: clusterv1.GroupVersion.String(), Kind: "ManagedCluster",
		Name: new.Name, UID: new.UID, Namespace: new.Name,
	}, event.What{Type: kind, Reason: reason, Action: reason, Note: fmt.Sprintf(format, new.Name)})
	e.Name = fmt.Sprintf("%s.%x", new.Name, e.EventTime.UnixNano())
	return e
}
