package work

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/engine"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/decide"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/manifest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/watches"
	apiwork "github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// errOutdated is that the cache has yet to learn what this agent has written. The work
// is queued when it does.
var errOutdated = errors.New("the copy of the work is older than what was written")

// get reads a work from the cache, or returns errOutdated.
func (a *agent) get(ctx context.Context, name string) (*workv1.ManifestWork, error) {
	// The second attempt is for a copy that came while the first was compared, too
	// early to queue a work that was not waiting yet.
	for range 2 {
		mw := &workv1.ManifestWork{}
		if err := a.hub.Get(ctx, a.workKey(name), mw); err != nil {
			return nil, err
		}
		if !a.written.IsBehind(a.workKey(name), mw) {
			return mw, nil
		}
	}
	return nil, errOutdated
}

// read reads all that it takes to decide about a work, and has its objects
// watched, so that no change falls in between.
func (a *agent) read(ctx context.Context, mw *workv1.ManifestWork) (*pass, error) {
	appliedName := apiwork.AppliedManifestWorkName(a.hubHash, mw.Name)
	if !controllerutil.ContainsFinalizer(mw, apiwork.ManifestWorkFinalizer) {
		written, err := patch.Object(ctx, a.hub, mw, func() bool {
			return controllerutil.AddFinalizer(mw, apiwork.ManifestWorkFinalizer)
		})
		if err != nil {
			return nil, fmt.Errorf("add the finalizer to the work %s: %w", mw.Name, err)
		}
		if !written {
			return nil, fmt.Errorf("the work %s is gone: %w", mw.Name, engine.ErrWaiting)
		}
		a.written.Wrote(mw)
	}
	// The author may ask for all of the work to be applied once more. What is not
	// remembered is applied, also while corrections are paused.
	if request := mw.Annotations[apiwork.ReplayAnnotation]; request != "" {
		a.log.Info("applying a work once more, as asked", "work", mw.Name, "request", request)
		a.memory.Forget(mw.Name, appliedName)
	}
	p := &pass{work: mw, last: a.memory.Recall(mw.Name)}
	applied := &workv1.AppliedManifestWork{}
	switch err := a.local.Get(ctx, types.NamespacedName{Name: appliedName}, applied); {
	case err == nil:
		p.applied = applied
	case !apierrors.IsNotFound(err):
		return nil, err
	}
	made := applied.Status.AppliedResources
	p.known = decide.Input{
		Work: mw, Manifests: manifest.Read(mw, a.mapper), Last: p.last.Results,
		Owner: applied.UID, Listed: made, Now: a.clock.Now(),
	}
	concerning := watches.Concerning(p.known.Manifests, p.known.Last, made)
	p.known.Versions = a.watches.Set(mw.Name, concerning)
	return p, nil
}
