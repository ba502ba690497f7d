package work

import (
	"context"
	"fmt"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/report"
	apiwork "github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// report writes a work's status when it has changed, as much of it as the hub
// takes.
func (a *agent) report(ctx context.Context, mw *workv1.ManifestWork, whole workv1.ManifestWorkStatus) error {
	room, known := a.memory.Room(mw.Name, mw.Generation)
	if !known {
		room = report.RoomFor(mw)
	}
	for {
		status := report.Fit(whole, room, mw.Generation)
		err := a.reportAs(ctx, mw, status)
		if !report.TooLarge(err) {
			return err
		}
		room = report.SmallerRoom(status)
		a.memory.SetRoom(mw.Name, mw.Generation, room)
		if len(status.ResourceStatus.Manifests) == 0 {
			return err // there is no less to try
		}
	}
}

func (a *agent) reportAs(ctx context.Context, mw *workv1.ManifestWork, status workv1.ManifestWorkStatus) error {
	if apiequality.Semantic.DeepEqual(mw.Status, status) {
		a.metrics.setState(mw)
		return nil
	}
	before := mw.DeepCopy()
	after := mw.DeepCopy()
	after.Status = status
	if err := a.hub.Status().Patch(ctx, after, changesSince(before)); err != nil {
		return fmt.Errorf("report the status of the work %s: %w", mw.Name, err)
	}
	*mw = *after
	a.freshness.Wrote(mw)
	a.metrics.setState(mw)
	was := meta.FindStatusCondition(before.Status.Conditions, apiwork.ConditionApplied)
	is := meta.FindStatusCondition(status.Conditions, apiwork.ConditionApplied)
	if is != nil && (was == nil || was.Status != is.Status) {
		a.log.Info("work carried out", "work", mw.Name, "applied", is.Status)
	}
	c := meta.FindStatusCondition(status.Conditions, apiwork.ConditionStatusTruncated)
	if c != nil && meta.FindStatusCondition(before.Status.Conditions, c.Type) == nil {
		a.log.Warn("a work's status is not reported in full", "work", mw.Name, "why", c.Message)
		a.events.truncated(mw, c.Message)
	}
	return nil
}
