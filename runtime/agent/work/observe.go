package work

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// observe reads the object of a manifest that was not applied: it may exist
// nevertheless. What the work's executor may not get is not read at all.
func (a *agent) observe(ctx context.Context, m *manifest, o outcome) outcome {
	if err := a.objects.mayRead(ctx, m.executor, m.gvr, m.meta.Namespace, m.meta.Name); err != nil {
		o.fetched, o.hidden = err, isDenied(err)
		return o
	}
	return a.look(ctx, m, o)
}

// look reads the object of a manifest whose executor may get it.
func (a *agent) look(ctx context.Context, m *manifest, o outcome) outcome {
	live, err := a.objects.get(ctx, m.gvr, m.meta.Namespace, m.meta.Name)
	if err != nil {
		o.fetched = err
		return o
	}
	see(&o, live)
	return o
}

// see notes what is in the cluster, which may be nothing. What the work's rules
// say of it is for inspect.
func see(o *outcome, live *unstructured.Unstructured) {
	if live == nil {
		return
	}
	o.exists, o.uid, o.resourceVersion = true, live.GetUID(), live.GetResourceVersion()
	o.progress, o.live = progressOf(live), live
}
