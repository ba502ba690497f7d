package hubmade

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// maxNote is the longest note that an event may have.
const maxNote = 1024

func systemNamespace() *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem}}
}

// record leaves an event on the cloud for a kubeconfig that is handed out. What does
// not fit into it is in the audit log.
func (h *Handler) record(ctx context.Context, lc *v1alpha1.LogicalCloud, requester, user string, handed []string) error {
	note := fmt.Sprintf("kubeconfig handed out: requester %q, user %q, %s", requester, user, strings.Join(handed, "; "))
	if len(note) > maxNote {
		note = strings.ToValidUTF8(note[:maxNote-3], "") + "..."
	}
	event := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: lc.Namespace, GenerateName: "kubeconfig-"},
		EventTime:  metav1.NewMicroTime(h.clock.Now()), Type: corev1.EventTypeNormal, Reason: muster.EventKubeconfigHandedOut, Action: "HandOut",
		Regarding:           corev1.ObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: "LogicalCloud", Namespace: lc.Namespace, Name: lc.Name, UID: lc.UID},
		ReportingController: muster.GroupName + "/access", ReportingInstance: "muster-hub", Note: note,
	}
	if err := h.client.Create(ctx, event); err != nil {
		return fmt.Errorf("record that a kubeconfig is handed out: %w", err)
	}
	return nil
}
