package hubmade

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/audit"

	"github.com/muster-fleet/terraform-provider-muster/internal/logging"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/event"
)

// Equal refusals share one event for as long as it lives; a flood of different ones
// must not fill the store.
const refusalsPerSecond, refusalsAtOnce = 1, 50

func systemNamespace() *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem}}
}

// record leaves an event on the cloud for a kubeconfig that is handed out. What does
// not fit into it is in the audit log.
func (h *Handler) record(ctx context.Context, lc *v1alpha1.LogicalCloud, requester, user string, handed []string) error {
	note := fmt.Sprintf("kubeconfig handed out: requester %q, user %q, %s", requester, user, strings.Join(handed, "; "))
	e := h.event(lc, corev1.EventTypeNormal, muster.EventKubeconfigHandedOut, note)
	e.GenerateName = "kubeconfig-"
	if err := h.client.Create(ctx, e); err != nil {
		return fmt.Errorf("record that a kubeconfig is handed out: %w", err)
	}
	audit.AddAuditAnnotation(ctx, "muster-fleet.io/kubeconfig", fmt.Sprintf("user %q: %s", user, strings.Join(handed, "; ")))
	return nil
}

// refused leaves an event on the cloud for a kubeconfig that somebody may not have.
func (h *Handler) refused(ctx context.Context, lc *v1alpha1.LogicalCloud, requester, user string, why error) {
	audit.AddAuditAnnotation(ctx, "muster-fleet.io/access-refused", why.Error())
	note := fmt.Sprintf("kubeconfig refused: requester %q, user %q: %v", requester, user, why)
	e := h.event(lc, corev1.EventTypeWarning, muster.EventAccessRefused, note)
	event.NameOnce(e, "kubeconfig-refused-")
	log := logging.FromContext(ctx).With("namespace", e.Namespace, "note", e.Note)
	if !h.refusals.TryAccept() {
		log.Info("kubeconfig refused, and no event made, as there are too many")
		return
	}
	if err := h.client.Create(ctx, e); err != nil && !apierrors.IsAlreadyExists(err) {
		log.Error("make an event of a refused kubeconfig", "err", err)
	}
}

// event is one about a cloud, without a name.
func (h *Handler) event(lc *v1alpha1.LogicalCloud, kind, reason, note string) *eventsv1.Event {
	source := event.Source{Controller: muster.GroupName + "/access", Instance: "muster-hub", Clock: h.clock}
	return source.New(corev1.ObjectReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "LogicalCloud",
		Namespace: lc.Namespace, Name: lc.Name, UID: lc.UID,
	}, event.What{Type: kind, Reason: reason, Action: "HandOut", Note: note})
}
