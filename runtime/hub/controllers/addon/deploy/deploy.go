package deploy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/works"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// deploy brings an add-on that stays into its cluster.
func (c *Controller) deploy(ctx context.Context, p *pass) error {
	if err := c.setFinalizers(ctx, p, withoutDeprecated); err != nil || !p.deploys() {
		return err
	}
	r := &report{}
	if p.addOn.UID == "" {
		c.publish(p, r)
		return nil
	}
	if err := works.CheckName(p.addOn); err != nil {
		r.failed(p, addon.MessageBuildWorkFailed+err.Error())
		c.publish(p, r)
		return nil //nolint:nilerr // the status says it
	}
	all, err := c.render(ctx, p)
	switch {
	case isFailure(err):
		return err
	case errors.Is(err, errWaiting):
		// Whatever the cluster has stays, and is reported on.
	case err != nil:
		r.failed(p, addon.MessageRenderFailed+err.Error())
		c.publish(p, r)
		return nil //nolint:nilerr // the status says it
	default:
		if err := c.setFinalizers(ctx, p, func(have []string) []string { return wantedFinalizers(have, p, all) }); err != nil {
			return err
		}
		if done, err := c.bring(ctx, p, r, all); !done {
			c.publish(p, r)
			return err
		}
	}
	if err := c.leaveHosts(ctx, p); err != nil {
		return err
	}
	r.works(p)
	c.publish(p, r)
	return nil
}

// bring writes the works in all places. It is not done when that has failed.
func (c *Controller) bring(ctx context.Context, p *pass, r *report, all *content) (done bool, err error) {
	done = true
	for _, place := range p.places() {
		what, have := all.managed, &p.own
		if place.Host != "" {
			what, have = all.hosting, &p.away
		}
		changes, problem := works.Deploy(c.input(place, what, all), *have)
		if problem != nil {
			r.failedIn(place, addon.MessageBuildWorkFailed+problem.Error())
			done = false
			continue
		}
		if *have, problem = c.carryOut(ctx, *have, changes); problem != nil {
			done, err = false, errors.Join(err, problem)
			if !apierrors.IsConflict(problem) { // it is only late
				r.failedIn(place, addon.MessageApplyWorkFailed+problem.Error())
			}
			continue
		}
		r.empty(place, len(what.Deploy) == 0)
	}
	return done, err
}

// places are where the add-on's works are to be.
func (p *pass) places() []works.Place {
	if p.host == nil {
		return []works.Place{p.managed()}
	}
	return []works.Place{p.managed(), p.hosting()}
}

// leaveHosts deletes works in clusters that do not host the add-on any more, and those
// that ran before an earlier add-on of the name was deleted.
func (c *Controller) leaveHosts(ctx context.Context, p *pass) error {
	var changes []works.Change
	for _, w := range p.away {
		if p.host == nil || w.Namespace != p.host.Name || w.Name == p.hosting().HookName() {
			changes = append(changes, works.Change{Have: w})
		}
	}
	left, err := c.carryOut(ctx, p.away, changes)
	if err != nil {
		return err
	}
	p.away = left
	if p.host != nil {
		return nil
	}
	return c.setFinalizers(ctx, p, func(have []string) []string {
		return without(have, addon.HostingManifestsFinalizer, addon.HostingPreDeleteFinalizer)
	})
}

// wantedFinalizers are those of an add-on that is deployed. Others' stay.
func wantedFinalizers(have []string, p *pass, all *content) []string {
	set := func(name string, wanted bool) {
		switch there := slices.Contains(have, name); {
		case wanted && !there:
			have = append(have, name)
		case !wanted && there:
			have = without(have, name)
		}
	}
	set(addon.PreDeleteFinalizer, len(all.managed.Hooks) > 0)
	set(addon.HostingPreDeleteFinalizer, p.host != nil && len(all.hosting.Hooks) > 0)
	// Without a host, the works there go first.
	set(addon.HostingManifestsFinalizer, p.host != nil || len(p.away) > 0)
	return have
}

func withoutDeprecated(have []string) []string { return without(have, addon.DeprecatedFinalizers()...) }

func without(have []string, names ...string) []string {
	return slices.DeleteFunc(have, func(f string) bool { return slices.Contains(names, f) })
}

// in are the works of a place.
func in(place works.Place, all []*workv1.ManifestWork) (out []*workv1.ManifestWork) {
	for _, w := range all {
		if place.Owns(w) {
			out = append(out, w)
		}
	}
	return out
}

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
	c.publish(p, r)
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
			if _, err := c.write(ctx, change); err != nil {
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

// hook is what is to run in a place before an add-on is deleted.
type hook struct {
	place     works.Place
	finalizer string
	// cluster is where it runs, nil if it is gone.
	cluster *clusterv1.ManagedCluster
	have    []*workv1.ManifestWork
	// content is what the template says now; nil if that is not known.
	content *works.Content
}

// work is the work that runs it, nil if there is none yet.
func (h hook) work() *workv1.ManifestWork {
	for _, w := range h.have {
		if w.Name == h.place.HookName() {
			return w
		}
	}
	return nil
}

// manifests are what is to run. The template may be gone, or be newer than what the
// cluster has; its works have kept what belongs to them.
func (h hook) manifests() []*unstructured.Unstructured {
	if h.content != nil {
		return h.content.Hooks
	}
	return works.KeptHooks(h.place, h.have)
}

// belongs reports whether a work was made for this add-on, and not for an earlier one
// of its name.
func (h hook) belongs(w *workv1.ManifestWork) bool {
	return h.place.Host != "" || metav1.IsControlledBy(w, h.place.AddOn)
}

// impossible says why a hook will never run; nothing if it may.
func (h hook) impossible() string {
	switch {
	case h.cluster == nil && h.place.Host != "":
		return fmt.Sprintf("the hosting cluster %s is gone, or is being removed", h.place.Host)
	case h.cluster == nil:
		return fmt.Sprintf("the cluster %s is gone", h.place.Namespace())
	case !h.cluster.DeletionTimestamp.IsZero() && !h.cluster.Spec.AcceptsClient():
		return fmt.Sprintf("the cluster %s is being removed and is denied, so its agent gets nothing new", h.cluster.Name)
	}
	return ""
}

// waits says what the deletion of an add-on waits for, and what to do if that does not
// come.
func (r *report) waits(p *pass, h hook, problem string) {
	text := []string{fmt.Sprintf("hook manifestWork %s is not completed.", h.place.HookName())}
	switch {
	case problem != "":
		text = append(text, problem+".", fmt.Sprintf("Put that right (a Job or Pod that has failed runs again when it is deleted in the cluster %s),", h.place.Namespace()),
			fmt.Sprintf("or remove the finalizer %s from the ManagedClusterAddOn %s/%s to go on without.", h.finalizer, p.addOn.Namespace, p.addOn.Name))
	case !h.cluster.Spec.AcceptsClient():
		text = append(text, fmt.Sprintf("The cluster %s is denied, so its agent gets nothing new: accept it, or remove the finalizer %s from the ManagedClusterAddOn to go on without.", h.cluster.Name, h.finalizer))
	case availability(h.cluster) == metav1.ConditionUnknown:
		text = append(text, fmt.Sprintf("The cluster %s is not heard of: it goes on when the cluster is back, or without the hook when the finalizer %s is removed from the ManagedClusterAddOn.", h.cluster.Name, h.finalizer))
	}
	r.hook(metav1.Condition{Status: metav1.ConditionFalse, Reason: addon.ReasonHookNotCompleted, Message: strings.Join(text, " ")})
}

// hook says how a hook is. One that is waited for counts more than one that is done.
func (r *report) hook(c metav1.Condition) {
	c.Type = addon.ConditionHookManifestCompleted
	for i, have := range r.set {
		if have.Type == c.Type {
			if have.Status == metav1.ConditionTrue {
				r.set[i] = c
			}
			return
		}
	}
	r.set = append(r.set, c)
}
