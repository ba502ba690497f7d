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
	a.see(ctx, &o, m, live)
	return o
}

// see notes what is in the cluster, which may be nothing.
func (a *agent) see(ctx context.Context, o *outcome, m *manifest, live *unstructured.Unstructured) {
	if live == nil {
		return
	}
	o.exists, o.uid, o.resourceVersion = true, live.GetUID(), live.GetResourceVersion()
	o.progress = progressOf(live)
	a.inspect(ctx, o, m, live)
}
