package work

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// observe reads the object of a manifest that was not applied: it may exist
// nevertheless.
func (a *agent) observe(ctx context.Context, m *manifest, o outcome) outcome {
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
	o.feedback = readFeedback(m.feedback, live, a.maxRaw)
	o.conditions = a.rules.evaluate(ctx, m.rules, live)
	o.progress = progressOf(live)
}
