package work

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientevents "k8s.io/client-go/tools/events"
	klog "k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/engine"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/decide"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/manifest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/report"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/limits"
	apiwork "github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// resync is how often a work gets a pass when nothing happens, from this on up to
// half as long again. The watches make it a safety net.
const resync = 4 * time.Minute

// report reports what a pass led to, and returns when the next one is due.
func (a *agent) report(ctx context.Context, p *pass) (reconcile.Result, error) {
	mw := p.work
	outcomes := make([]report.Outcome, len(p.results))
	for i, r := range p.results {
		outcomes[i] = r.Outcome(a.clock.Now())
		outcomes[i].Kept = p.plan.Complete
	}
	failed, again := failures(p), requeueAfter(jittered(resync), p.results)
	status := report.Status(mw, p.known.Manifests, outcomes, a.derive)
	if !p.plan.Complete {
		pending := p.pending
		if len(pending) > 0 {
			pending = a.readable(ctx, mw.Spec.Executor, pending)
		}
		report.SetPruned(&status.Conditions, pending, mw.Generation)
	}
	err := errors.Join(p.err, a.answer(ctx, mw, status))
	switch {
	case !p.plan.Complete:
		a.events.failing(mw, outcomes, a.works.Failures(mw.Name))
		if err = errors.Join(err, failed); err == nil && len(p.pending) > 0 {
			err = fmt.Errorf("objects are still being deleted: %w", engine.ErrWaiting)
		}
	case err == nil && !meta.IsStatusConditionTrue(mw.Status.Conditions, apiwork.ConditionComplete):
		a.works.Add(mw.Name) // its rules say something else now
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: again}, nil
}

// failures are why a pass has to be repeated soon; nil when it need not be.
func failures(p *pass) error {
	var failed []error
	for i, r := range p.results {
		if r.Err != nil && !manifest.RetriedRarely(r.Err) {
			failed = append(failed, fmt.Errorf("manifest %d of the work %s: %w", i, p.work.Name, r.Err))
		}
	}
	return errors.Join(failed...)
}

// requeueAfter is when a work needs another pass although nothing changes, at the
// latest after resync.
func requeueAfter(resync time.Duration, results []decide.Result) time.Duration {
	again := resync
	for _, r := range results {
		for _, pause := range []time.Duration{r.Paused, r.Waits, r.PodsAgain} {
			if pause > 0 {
				again = min(again, pause)
			}
		}
		if r.Hidden || manifest.IsDenied(r.Err) {
			again = min(again, manifest.DeniedRetry)
		}
	}
	return again
}

// readable hides the remainders that the work's executor may not get. Only what a
// message names is asked about.
func (a *agent) readable(
	ctx context.Context, executor *workv1.ManifestWorkExecutor, left []report.Remainder,
) []report.Remainder {
	if executor == nil {
		return left
	}
	left = slices.Clone(left)
	slices.SortFunc(left, func(x, y report.Remainder) int {
		return cmp.Compare(report.NameOf(x.Resource), report.NameOf(y.Resource))
	})
	for i := range left {
		r := left[i].Resource
		gvr := schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Resource}
		left[i].Hidden = i >= report.MaxNamed || a.rights.MayRead(ctx, executor, gvr, r.Namespace, r.Name) != nil
	}
	return left
}

// answer writes a work's status, and thereby answers a request to apply the work
// once more: the annotation goes when the report is there. A request that was made
// since fails the write, and is carried out next.
func (a *agent) answer(ctx context.Context, mw *workv1.ManifestWork, status workv1.ManifestWorkStatus) error {
	if err := a.writeStatus(ctx, mw, status); err != nil || mw.Annotations[apiwork.ReplayAnnotation] == "" {
		return err
	}
	written, err := patch.Object(ctx, a.hub, mw, func() bool {
		delete(mw.Annotations, apiwork.ReplayAnnotation)
		return true
	})
	if err != nil {
		return fmt.Errorf("answer the request to apply the work %s once more: %w", mw.Name, err)
	}
	if written {
		a.written.Wrote(mw)
	}
	return nil
}

// writeStatus writes a work's status when it has changed, as much of it as the hub
// takes.
func (a *agent) writeStatus(ctx context.Context, mw *workv1.ManifestWork, whole workv1.ManifestWorkStatus) error {
	room, known := a.memory.Room(mw.Name, mw.Generation)
	if !known {
		room = report.RoomFor(mw)
	}
	for {
		status := report.Fit(whole, room, mw.Generation)
		err := a.tryStatus(ctx, mw, status)
		if err == nil || !report.TooLarge(err) {
			return err
		}
		room = report.SmallerRoom(status)
		a.memory.SetRoom(mw.Name, mw.Generation, room)
		if len(status.ResourceStatus.Manifests) == 0 {
			return err // there is no less to try
		}
	}
}

// tryStatus writes a status that the hub may refuse as too large. The work then
// stays as it was.
func (a *agent) tryStatus(ctx context.Context, mw *workv1.ManifestWork, status workv1.ManifestWorkStatus) error {
	if apiequality.Semantic.DeepEqual(mw.Status, status) {
		a.metrics.setState(mw)
		return nil
	}
	before, after := mw.Status.Conditions, &workv1.ManifestWork{Status: status}
	after.Namespace, after.Name, after.UID, after.ResourceVersion = mw.Namespace, mw.Name, mw.UID, mw.ResourceVersion
	written, err := patch.WholeStatus(ctx, a.hub, after)
	if err != nil {
		return fmt.Errorf("report the status of the work %s: %w", mw.Name, err)
	}
	if !written {
		return nil // the work is gone
	}
	*mw = *after
	a.written.Wrote(mw)
	a.metrics.setState(mw)
	was := meta.FindStatusCondition(before, apiwork.ConditionApplied)
	is := meta.FindStatusCondition(status.Conditions, apiwork.ConditionApplied)
	if is != nil && (was == nil || was.Status != is.Status) {
		a.log.Info("work carried out", "work", mw.Name, "applied", is.Status)
	}
	c := meta.FindStatusCondition(status.Conditions, apiwork.ConditionStatusTruncated)
	if c != nil && meta.FindStatusCondition(before, c.Type) == nil {
		a.log.Warn("a work's status is not reported in full", "work", mw.Name, "why", c.Message)
		a.events.truncated(mw, c.Message)
	}
	return nil
}

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
