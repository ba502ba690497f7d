package deploy

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/works"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
)

// remove takes a deleted add-on out of its clusters. Works in its own cluster go with
// it; before, what is to run there does.
func (c *Controller) remove(ctx context.Context, p *pass) error {
	if err := c.setFinalizers(ctx, p, withoutDeprecated); err != nil {
		return err
	}
	own := []string{addon.PreDeleteFinalizer, addon.HostingPreDeleteFinalizer, addon.HostingManifestsFinalizer}
	if !slices.ContainsFunc(p.addOn.Finalizers, func(f string) bool { return slices.Contains(own, f) }) {
		return nil
	}
	all, problem := c.render(ctx, p)
	if isFailure(problem) {
		return problem
	}
	managed := hook{place: p.managed(), finalizer: addon.PreDeleteFinalizer, cluster: p.cluster, have: p.own}
	hosting := hook{place: p.hosting(), finalizer: addon.HostingPreDeleteFinalizer, cluster: p.host, have: in(p.hosting(), p.away)}
	if all != nil {
		managed.content, hosting.content = &all.managed, &all.hosting
	}
	var done []string
	hooks := []hook{managed, hosting}
	if p.asked == "" {
		hooks, done = hooks[:1], append(done, addon.HostingPreDeleteFinalizer)
	}
	r := &report{}
	for _, h := range hooks {
		finished, err := c.run(ctx, p, r, h, all, problem)
		if err != nil {
			return err
		}
		if finished {
			done = append(done, h.finalizer)
		}
	}
	if err := c.publish(ctx, p, r); err != nil {
		return err
	}
	if slices.Contains(done, addon.HostingPreDeleteFinalizer) {
		var changes []works.Change
		for _, w := range p.away {
			changes = append(changes, works.Change{Have: w})
		}
		if _, err := c.carryOut(ctx, p.away, changes); err != nil {
			return err
		}
		done = append(done, addon.HostingManifestsFinalizer)
	}
	return c.setFinalizers(ctx, p, func(have []string) []string { return without(have, done...) })
}

// run runs a hook, and reports whether there is nothing to wait for.
func (c *Controller) run(ctx context.Context, p *pass, r *report, h hook, all *content, problem error) (finished bool, err error) {
	if !slices.Contains(p.addOn.Finalizers, h.finalizer) {
		return true, nil
	}
	if why := h.impossible(); why != "" {
		c.events.Eventf(p.addOn, nil, corev1.EventTypeWarning, eventSkipped, "Delete", "what was to run before the add-on is deleted does not: %s", why)
		return true, nil
	}
	w, wanted := h.work(), h.manifests()
	switch {
	case w != nil && !h.belongs(w):
		return false, c.delete(ctx, w) // it ran for an earlier add-on of the name
	case len(wanted) > 0:
		in := c.input(h.place, works.Content{Hooks: wanted}, all)
		change, needed, err := works.Hook(in, h.have)
		if err != nil {
			r.waits(p, h, err.Error())
			return false, nil
		}
		if needed {
			if err := c.write(ctx, change); err != nil {
				return false, err
			}
		}
		if w == nil {
			r.waits(p, h, "")
			return false, nil
		}
	case w == nil && (h.content != nil || errors.Is(problem, errWaiting) || works.Deployed(h.place, h.have) > 0):
		return true, nil // what the cluster has got has no hooks
	case w == nil:
		r.waits(p, h, fmt.Sprintf("what is to run is not known: %v", problem))
		return false, nil
	}
	done, failure := works.Completed(w)
	if !done {
		r.waits(p, h, failure)
		return false, nil
	}
	r.hook(metav1.Condition{Status: metav1.ConditionTrue, Reason: addon.ReasonHookCompleted, Message: fmt.Sprintf("hook manifestWork %s is completed.", w.Name)})
	return true, nil
}
