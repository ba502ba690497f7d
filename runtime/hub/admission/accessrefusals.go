package admission

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/kubernetes"
	eventsclient "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// Limits of the events about refused requests. Equal refusals share one event for
// as long as it lives; a flood of different ones must not fill the store.
const (
	refusalsPerSecond = 1
	refusalsAtOnce    = 50
	// maxNote is the longest note that an event may have.
	maxNote = 1024
)

// accessRefusals leaves an event for each access request that was refused: there is
// no object that could tell of it.
type accessRefusals struct {
	events eventsclient.EventsV1Interface
	rate   flowcontrol.PassiveRateLimiter
}

// SetExternalKubeClientSet is called by the API server before it serves.
func (r *accessRefusals) SetExternalKubeClientSet(c kubernetes.Interface) {
	r.events, r.rate = c.EventsV1(), flowcontrol.NewTokenBucketPassiveRateLimiter(refusalsPerSecond, refusalsAtOnce)
}

// tell writes the event, on the logical cloud that was asked for.
func (r *accessRefusals) tell(ctx context.Context, a admission.Attributes, asked *v1alpha1.AccessRequest, cloud *v1alpha1.LogicalCloud, keyHash string, why error) {
	about := corev1.ObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: "LogicalCloud", Namespace: a.GetNamespace(), Name: asked.Spec.LogicalCloud}
	if cloud != nil {
		about.UID = cloud.UID
	}
	reason := why.Error()
	if _, after, forbidden := strings.Cut(reason, " is forbidden: "); forbidden {
		reason = after // without the request's own name, by which equal refusals differ
	}
	note := fmt.Sprintf("access refused: requester %q, user %q, cluster %q, key %s: %s", a.GetUserInfo().GetName(), asked.Spec.User, asked.Spec.ManagedCluster, orNone(keyHash), reason)
	sum := sha256.Sum256([]byte(about.Name + "/" + note))
	event := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.GetNamespace(), Name: "access-refused-" + hex.EncodeToString(sum[:10])},
		EventTime:  metav1.NewMicroTime(time.Now()), Type: corev1.EventTypeWarning, Reason: muster.EventAccessRefused, Action: "Ask", Regarding: about,
		ReportingController: muster.GroupName + "/access", ReportingInstance: "muster-hub",
		Note: strings.ToValidUTF8(note[:min(len(note), maxNote)], ""),
	}
	if !r.rate.TryAccept() {
		klog.FromContext(ctx).Info("access refused, and too many events to tell", "namespace", event.Namespace, "note", event.Note)
		return
	}
	_, err := r.events.Events(event.Namespace).Create(ctx, event, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		klog.FromContext(ctx).Error(err, "tell of a refused access request", "namespace", event.Namespace, "note", event.Note)
	}
}

func orNone(keyHash string) string {
	if keyHash == "" {
		return "unknown"
	}
	return keyHash
}
