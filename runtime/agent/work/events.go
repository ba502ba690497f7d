package work

import (
	"fmt"
	"sync"

	clientevents "k8s.io/client-go/tools/events"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	klog "k8s.io/klog/v2"

	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/engine"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/manifest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/report"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/limits"
	apiwork "github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

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
	for _, n := range e.unsent(mw, outcomes, attempts) {
		e.recorder.Eventf(mw, n.object, corev1.EventTypeWarning, apiwork.ReasonManifestFailed, "Apply", "%s", n.note)
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
	note   string
}

// unsent is what has not been reported yet. It is remembered as reported.
func (e *events) unsent(mw *workv1.ManifestWork, outcomes []report.Outcome, attempts int) []failureEvent {
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
		if attempts < engine.MaxUnreported && !manifest.RetriedRarely(outcomes[m.Ordinal].Applied) {
			if known {
				failing[m.Ordinal] = before
			}
			continue
		}
		name := klog.KRef(m.Namespace, m.Name)
		note := text.Cut(fmt.Sprintf("Manifest %d, %s %s: %s", m.Ordinal, m.Kind, name, c.Message), limits.EventNote)
		failing[m.Ordinal] = note
		if note != before {
			out = append(out, failureEvent{referenceTo(m), note})
		}
	}
	if len(failing) > 0 {
		e.sent[mw.Name] = failing
	} else {
		delete(e.sent, mw.Name)
	}
	return out
}

func (e *events) forget(name string) {
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
