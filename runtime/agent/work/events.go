package work

import (
	"fmt"
	"strings"
	"sync"

	clientevents "k8s.io/client-go/tools/events"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	klog "k8s.io/klog/v2"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/decide"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/report"
	apiwork "github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// maxEventMessage is the longest message of an event, in bytes.
const maxEventMessage = 1000

// actionApply is what the agent was doing, as its events name it.
const actionApply = "Apply"

// events reports on the hub, once for each cause, which manifests fail and why.
type events struct {
	recorder clientevents.EventRecorder

	mu   sync.Mutex
	sent map[string]map[int32]string // what was reported last of a work's manifests
}

func newEvents(recorder clientevents.EventRecorder) *events {
	return &events{recorder: recorder, sent: map[string]map[int32]string{}}
}

// failing reports what fails of a work with the status that it has now. attempts is
// how often it has failed in a row.
func (e *events) failing(mw *workv1.ManifestWork, outcomes []report.Outcome, attempts int) {
	for _, n := range e.news(mw, outcomes, attempts) {
		e.recorder.Eventf(mw, n.object, corev1.EventTypeWarning, apiwork.ReasonManifestFailed, actionApply, "%s", n.text)
	}
}

// truncated reports that not all is reported of a work.
func (e *events) truncated(mw *workv1.ManifestWork, message string) {
	e.recorder.Eventf(mw, nil, corev1.EventTypeWarning, apiwork.ReasonStatusTooLarge, "Report", "%s", message)
}

// failureEvent is what is to be reported of a manifest.
type failureEvent struct {
	// object is the manifest's. Failures of one work that differ in nothing but
	// the text would count as one event without it.
	object *corev1.ObjectReference
	text   string
}

// news is what has not been reported yet, and remembers it as reported.
func (e *events) news(mw *workv1.ManifestWork, outcomes []report.Outcome, attempts int) []failureEvent {
	e.mu.Lock()
	defer e.mu.Unlock()
	failing := map[int32]string{}
	var out []failureEvent
	for _, entry := range mw.Status.ResourceStatus.Manifests {
		m := entry.ResourceMeta
		c := meta.FindStatusCondition(entry.Conditions, apiwork.ConditionApplied)
		if int(m.Ordinal) >= len(outcomes) || outcomes[m.Ordinal].Applied == nil || c == nil {
			continue
		}
		before, known := e.sent[mw.Name][m.Ordinal]
		if attempts < passing && !decide.RetriedRarely(outcomes[m.Ordinal].Applied) {
			if known {
				failing[m.Ordinal] = before
			}
			continue
		}
		text := fmt.Sprintf("Manifest %d, %s %s: %s", m.Ordinal, m.Kind, klog.KRef(m.Namespace, m.Name).String(), c.Message)
		if len(text) > maxEventMessage {
			text = strings.ToValidUTF8(text[:maxEventMessage-3], "") + "..."
		}
		failing[m.Ordinal] = text
		if text != before {
			out = append(out, failureEvent{referenceTo(m), text})
		}
	}
	if len(failing) > 0 {
		e.sent[mw.Name] = failing
	} else {
		delete(e.sent, mw.Name)
	}
	return out
}

func (e *events) Forget(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.sent, name)
}

// referenceTo is the object of a manifest, as far as it is known.
func referenceTo(m workv1.ManifestResourceMeta) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: schema.GroupVersion{Group: m.Group, Version: m.Version}.String(),
		Kind:       m.Kind, Namespace: m.Namespace, Name: m.Name,
		FieldPath: fmt.Sprintf("spec.workload.manifests[%d]", m.Ordinal),
	}
}
