package work

import (
	"fmt"
	"net/http"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	klog "k8s.io/klog/v2"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/decide"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/report"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

const (
	// maxEventMessage is the longest message of an event, in bytes.
	maxEventMessage = 1000
	// passing is how many attempts may fail before it is told: an instance of a
	// definition fails until the cluster serves it, which takes a moment.
	passing = 6
)

// events tells on the hub, once for each cause, which manifests fail and why.
type events struct {
	broadcaster record.EventBroadcaster
	recorder    record.EventRecorder

	mu   sync.Mutex
	told map[string]map[int32]string // what was said last of a work's manifests
}

func newEvents(hub *rest.Config, httpClient *http.Client, scheme *runtime.Scheme) (*events, error) {
	core, err := typedcorev1.NewForConfigAndClient(hub, httpClient)
	if err != nil {
		return nil, err
	}
	broadcaster := record.NewBroadcaster()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: core.Events("")})
	return &events{
		broadcaster: broadcaster,
		recorder:    broadcaster.NewRecorder(scheme, corev1.EventSource{Component: userAgent}),
		told:        map[string]map[int32]string{},
	}, nil
}

func (e *events) Stop() { e.broadcaster.Shutdown() }

// failing tells what fails of a work with the status that it has now. attempts is
// how often it has failed in a row.
func (e *events) failing(mw *workv1.ManifestWork, outcomes []report.Outcome, attempts int) {
	for _, text := range e.news(mw, outcomes, attempts) {
		e.recorder.Event(mw, corev1.EventTypeWarning, work.ReasonManifestFailed, text)
	}
}

// truncated tells that not all is reported of a work.
func (e *events) truncated(mw *workv1.ManifestWork, message string) {
	e.recorder.Event(mw, corev1.EventTypeWarning, work.ReasonStatusTooLarge, message)
}

// news is what has not been told yet, and remembers it as told.
func (e *events) news(mw *workv1.ManifestWork, outcomes []report.Outcome, attempts int) []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	failing := map[int32]string{}
	var out []string
	for _, entry := range mw.Status.ResourceStatus.Manifests {
		m := entry.ResourceMeta
		c := meta.FindStatusCondition(entry.Conditions, work.ConditionApplied)
		if int(m.Ordinal) >= len(outcomes) || outcomes[m.Ordinal].Applied == nil || c == nil {
			continue
		}
		before, told := e.told[mw.Name][m.Ordinal]
		if attempts < passing && !decide.RetriedRarely(outcomes[m.Ordinal].Applied) {
			if told {
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
			out = append(out, text)
		}
	}
	if len(failing) > 0 {
		e.told[mw.Name] = failing
	} else {
		delete(e.told, mw.Name)
	}
	return out
}

func (e *events) Forget(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.told, name)
}
