package deploy

import (
	"context"
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/works"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// deploy brings an add-on that stays into its cluster.
func (c *Controller) deploy(ctx context.Context, p *pass) error {
	if err := c.setFinalizers(ctx, p, withoutDeprecated); err != nil || !p.deploys() {
		return err
	}
	r := &report{}
	if err := works.CheckName(p.addOn); err != nil {
		r.failed(p, addon.MessageBuildWorkFailed+err.Error())
		return c.publish(ctx, p, r)
	}
	all, err := c.render(ctx, p)
	switch {
	case isFailure(err):
		return err
	case errors.Is(err, errWaiting):
		// Whatever the cluster has stays, and is reported on.
	case err != nil:
		r.failed(p, addon.MessageRenderFailed+err.Error())
		return c.publish(ctx, p, r)
	default:
		if err := c.setFinalizers(ctx, p, func(have []string) []string { return wantedFinalizers(have, p, all) }); err != nil {
			return err
		}
		if done, err := c.bring(ctx, p, r, all); !done {
			return errors.Join(err, c.publish(ctx, p, r))
		}
	}
	if err := c.leaveHosts(ctx, p); err != nil {
		return err
	}
	r.works(p)
	return c.publish(ctx, p, r)
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
