package work

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/failure"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/inspect"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/manifest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/report"
)

// observe reads the object of a manifest that was not applied: it may exist
// nevertheless. What the work's executor may not get is not read at all. It
// returns the object too, if there is one.
func (a *agent) observe(ctx context.Context, m *manifest.Manifest) (report.Observed, *unstructured.Unstructured) {
	if err := a.rights.MayRead(ctx, m.Executor, m.GVR, m.Meta.Namespace, m.Meta.Name); err != nil {
		return report.Observed{Fetched: err, Hidden: failure.IsDenied(err)}, nil
	}
	return a.read(ctx, m)
}

// read reads the object of a manifest whose executor may get it.
func (a *agent) read(ctx context.Context, m *manifest.Manifest) (report.Observed, *unstructured.Unstructured) {
	live, err := a.applier.Get(ctx, m.GVR, m.Meta.Namespace, m.Meta.Name)
	if err != nil {
		return report.Observed{Fetched: err}, nil
	}
	return observedOf(live), live
}

// observedOf is what is reported of an object, which may be nil, besides what the
// work's rules yield.
func observedOf(live *unstructured.Unstructured) report.Observed {
	if live == nil {
		return report.Observed{}
	}
	return report.Observed{Exists: true, UID: live.GetUID(), ResourceVersion: live.GetResourceVersion(), Progress: inspect.ProgressOf(live)}
}

// Inspect evaluates the work's rules on the object of a manifest, if there is one
// and there is time.
func (a *agent) Inspect(ctx context.Context, l *look, m *manifest.Manifest, o *report.Observed, live *unstructured.Unstructured) {
	if live == nil {
		return
	}
	var wait time.Duration
	if o.Findings, wait = l.rules.Inspect(ctx, m, live); wait > 0 {
		o.Waits = jittered(wait)
	}
}
