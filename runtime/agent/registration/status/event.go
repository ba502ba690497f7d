package status

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// availabilityEvent is the event for the hub when the availability of a cluster
// has changed, or nil when it has not.
//
// It is made by hand, because client-go's recorders patch the event that they
// find to count it up, which upstream's role for registration does not allow, and
// name the machine as the reporting instance, where upstream's agents name
// themselves.
func availabilityEvent(old, new *clusterv1.ManagedCluster, instance string, now metav1.MicroTime) *eventsv1.Event {
	was := meta.FindStatusCondition(old.Status.Conditions, cluster.ConditionAvailable)
	is := meta.FindStatusCondition(new.Status.Conditions, cluster.ConditionAvailable)
	if is == nil || was != nil && was.Status == is.Status {
		return nil
	}
	kind, reason, format := corev1.EventTypeNormal, cluster.ReasonEventAvailable, cluster.FormatEventAvailable
	if is.Status != metav1.ConditionTrue {
		kind, reason, format = corev1.EventTypeWarning, cluster.ReasonEventUnavailable, cluster.FormatEventUnavailable
	}
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: new.Name,
			Name:      fmt.Sprintf("%s.%x", new.Name, now.UnixNano()),
		},
		EventTime:           now,
		ReportingController: cluster.AgentReportingController,
		ReportingInstance:   instance,
		Action:              reason,
		Reason:              reason,
		Type:                kind,
		Note:                fmt.Sprintf(format, new.Name),
		Regarding: corev1.ObjectReference{
			APIVersion: clusterv1.GroupVersion.String(), Kind: "ManagedCluster",
			Name: new.Name, UID: new.UID, Namespace: new.Name,
		},
	}
}
