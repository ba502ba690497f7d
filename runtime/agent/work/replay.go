package work

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	apiwork "github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// beginReplay forgets what is known of a work's objects when its author asks for
// all of it to be applied once more. What is not remembered is applied, whatever
// the agent thinks of the objects, and without the pauses after quarrels.
func (a *agent) beginReplay(mw *workv1.ManifestWork) {
	if mw.Annotations[apiwork.ReplayAnnotation] == "" {
		return
	}
	a.log.Info("applying a work once more, as asked", "work", mw.Name, "request", mw.Annotations[apiwork.ReplayAnnotation])
	a.memory.Forget(mw.Name, apiwork.AppliedManifestWorkName(a.hubHash, mw.Name))
}

// answer reports on a work that was looked at, and thereby answers a request to
// apply it once more: the annotation goes when the report is there. A request
// that was made since fails the write, and is carried out next.
func (a *agent) answer(ctx context.Context, mw *workv1.ManifestWork, status workv1.ManifestWorkStatus) error {
	if err := a.report(ctx, mw, status); err != nil || mw.Annotations[apiwork.ReplayAnnotation] == "" {
		return err
	}
	before := mw.DeepCopy()
	delete(mw.Annotations, apiwork.ReplayAnnotation)
	if err := a.hub.Patch(ctx, mw, changesSince(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("answer the request to apply the work %s once more: %w", mw.Name, err)
	}
	a.freshness.Wrote(mw)
	return nil
}
