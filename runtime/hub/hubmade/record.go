package hubmade

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"strings"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/audit"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

const (
	// maxNote is the longest note that an event may have.
	maxNote = 1024
	// Equal refusals share one event for as long as it lives; a flood of different ones
	// must not fill the store.
	refusalsPerSecond, refusalsAtOnce = 1, 50
)

func systemNamespace() *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem}}
}

// record leaves an event on the cloud for a kubeconfig that is handed out. What does
// not fit into it is in the audit log.
func (h *Handler) record(ctx context.Context, lc *v1alpha1.LogicalCloud, requester, user string, handed []string) error {
	event := h.event(lc, muster.EventKubeconfigHandedOut, "HandOut",
		fmt.Sprintf("kubeconfig handed out: requester %q, user %q, %s", requester, user, strings.Join(handed, "; ")))
	event.Type, event.GenerateName = corev1.EventTypeNormal, "kubeconfig-"
	if err := h.client.Create(ctx, event); err != nil {
		return fmt.Errorf("record that a kubeconfig is handed out: %w", err)
	}
	audit.AddAuditAnnotation(ctx, "muster-fleet.io/kubeconfig", fmt.Sprintf("user %q: %s", user, strings.Join(handed, "; ")))
	return nil
}

// refused leaves an event on the cloud for a kubeconfig that somebody may not have.
func (h *Handler) refused(ctx context.Context, lc *v1alpha1.LogicalCloud, requester, user string, why error) {
	audit.AddAuditAnnotation(ctx, "muster-fleet.io/access-refused", why.Error())
	event := h.event(lc, muster.EventAccessRefused, "HandOut", fmt.Sprintf("kubeconfig refused: requester %q, user %q: %v", requester, user, why))
	sum := sha256.Sum256([]byte(lc.Name + "/" + event.Note))
	event.Type, event.Name = corev1.EventTypeWarning, "kubeconfig-refused-"+hex.EncodeToString(sum[:10])
	if !h.refusals.TryAccept() {
		slog.InfoContext(ctx, "kubeconfig refused, and too many events to tell", "namespace", event.Namespace, "note", event.Note)
		return
	}
	if err := h.client.Create(ctx, event); err != nil && !apierrors.IsAlreadyExists(err) {
		slog.ErrorContext(ctx, "tell of a refused kubeconfig", "namespace", event.Namespace, "note", event.Note, "err", err)
	}
}

// event is one about a cloud, without a name.
func (h *Handler) event(lc *v1alpha1.LogicalCloud, reason, action, note string) *eventsv1.Event {
	if len(note) > maxNote {
		note = strings.ToValidUTF8(note[:maxNote-3], "") + "..."
	}
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: lc.Namespace},
		EventTime:  metav1.NewMicroTime(h.clock.Now()), Reason: reason, Action: action, Note: note,
		Regarding:           corev1.ObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: "LogicalCloud", Namespace: lc.Namespace, Name: lc.Name, UID: lc.UID},
		ReportingController: muster.GroupName + "/access", ReportingInstance: "muster-hub",
	}
}
