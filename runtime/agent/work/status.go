package work

import (
	"context"
	"fmt"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/report"
	apiwork "github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

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
	before, after := mw.Status.Conditions, mw.DeepCopy()
	written, err := patch.Status(ctx, a.hub, after, func() bool {
		after.Status = status
		return true
	})
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
