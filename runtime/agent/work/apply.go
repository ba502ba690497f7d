package work

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"golang.org/x/sync/errgroup"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/muster-fleet/terraform-provider-muster/internal/recovery"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/engine"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/decide"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/manifest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/report"
	apiwork "github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// apply carries out the plan of a pass: it lists in the AppliedManifestWork what is
// about to be made, takes the steps, and deletes what the work no longer holds.
func (a *agent) apply(ctx context.Context, p *pass) error {
	if !p.plan.Complete {
		if err := a.ensureApplied(ctx, p); apierrors.IsInvalid(err) {
			// A name that is too long, say: the work's author has to know.
			return errors.Join(err, a.writeStatus(ctx, p.work, report.Refused(p.work.Status, p.work.Generation, err)))
		} else if err != nil {
			return err
		}
		if err := a.writeApplied(ctx, p.applied, p.plan.Announced); err != nil {
			return err
		}
	}
	a.takeSteps(ctx, p)
	if err := ctx.Err(); err != nil || p.plan.Complete {
		return err
	}
	results := make(map[manifest.Key]decide.Result, len(p.results))
	for i, m := range p.known.Manifests {
		if m.Err == nil {
			results[m.Key()] = p.results[i]
		}
	}
	if a.memory.Remember(p.work.Name, p.last, results) {
		a.works.Add(p.work.Name) // rights have changed meanwhile
	}
	if listed, ok := listing(p.plan, p.results); ok {
		p.err = a.prune(ctx, p, listed)
	}
	return nil
}

// ensureApplied makes the AppliedManifestWork that owns a work's objects.
func (a *agent) ensureApplied(ctx context.Context, p *pass) error {
	mw, amw := p.work, p.applied
	want := workv1.AppliedManifestWorkSpec{HubHash: a.hubHash, ManifestWorkName: mw.Name, AgentID: a.agentID}
	switch {
	case amw == nil:
		p.applied = &workv1.AppliedManifestWork{
			ObjectMeta: metav1.ObjectMeta{
				Name:       apiwork.AppliedManifestWorkName(a.hubHash, mw.Name),
				Labels:     mw.Labels,
				Finalizers: []string{apiwork.AppliedManifestWorkFinalizer},
			},
			Spec: want,
		}
		if err := a.local.Create(ctx, p.applied); err != nil {
			return fmt.Errorf("create the AppliedManifestWork of the work %s: %w", mw.Name, err)
		}
		return nil
	case !amw.DeletionTimestamp.IsZero():
		return fmt.Errorf("the AppliedManifestWork %s is still being deleted: %w", amw.Name, engine.ErrWaiting)
	case amw.Spec == want && controllerutil.ContainsFinalizer(amw, apiwork.AppliedManifestWorkFinalizer):
		return nil
	}
	written, err := patch.Object(ctx, a.local, amw, func() bool {
		amw.Spec = want
		controllerutil.AddFinalizer(amw, apiwork.AppliedManifestWorkFinalizer)
		return true
	})
	if err != nil {
		return fmt.Errorf("take over the AppliedManifestWork %s: %w", amw.Name, err)
	}
	return stillThere(written, amw)
}

// stillThere fails for an AppliedManifestWork that was not written as it is gone:
// no object may be made that it would have to own.
func stillThere(written bool, amw *workv1.AppliedManifestWork) error {
	if !written {
		return fmt.Errorf("the AppliedManifestWork %s is gone: %w", amw.Name, engine.ErrWaiting)
	}
	return nil
}

// takeSteps takes the steps of a plan, batch by batch.
func (a *agent) takeSteps(ctx context.Context, p *pass) {
	rules := a.inspector.Begin(p.last.Slow)
	defer func() {
		if slow := rules.End(); slow != p.last.Slow {
			a.memory.SetSlow(p.work.Name, slow)
		}
	}()
	batches := p.plan.Batches
	if p.plan.Complete {
		// In another order in each pass: there may not be time for the rules of all.
		batches = [][]int{rand.Perm(len(p.plan.Steps))}
	}
	p.results = make([]decide.Result, len(p.plan.Steps))
	for _, batch := range batches {
		var running errgroup.Group
		// So many objects of one work are held in memory at once.
		running.SetLimit(writers)
		for _, i := range batch {
			s, r := &p.plan.Steps[i], &p.results[i]
			// What waits for its rules is only read when there is time for them.
			if s.Unchanged && (s.Last.Waits == 0 || !rules.Open()) {
				*r = *s.Last
				if r.PodsAgain > 0 {
					running.Go(func() (err error) {
						defer recovery.Into(&err) // then what was known stays
						a.explain(ctx, p, s.Manifest, &r.Observed)
						return nil
					})
				}
				continue
			}
			running.Go(func() error {
				*r = a.takeStep(ctx, p, s, rules)
				return nil
			})
		}
		_ = running.Wait() // every result holds its own error
	}
}

// listing is what an AppliedManifestWork has to list once the steps of a plan were
// taken. ok is false while it is not known which objects there are: then the list
// stays as it is, and nothing is deleted.
func listing(plan decide.Plan, results []decide.Result) (listed []workv1.AppliedManifestResourceMeta, ok bool) {
	for i, s := range plan.Steps {
		switch r := results[i]; {
		case s.Manifest.Err == nil && r.Hidden:
			if s.Listed != nil {
				listed = append(listed, *s.Listed) // whatever has become of it
			}
		case s.Manifest.Err != nil || r.Fetched != nil:
			return nil, false
		case r.Exists:
			listed = append(listed, decide.ResourceMeta(s.Manifest, r.UID))
		case s.Manifest.Owned: // still to be made
			listed = append(listed, decide.ResourceMeta(s.Manifest, ""))
		}
	}
	return append(listed, plan.Kept...), true
}

// prune deletes what a work no longer holds, and has its AppliedManifestWork list
// the rest.
func (a *agent) prune(ctx context.Context, p *pass, listed []workv1.AppliedManifestResourceMeta) error {
	pending, err := a.removeAll(ctx, p.applied, p.plan.Dropped)
	if err != nil {
		err = fmt.Errorf("delete what the work %s no longer holds: %w", p.work.Name, err)
	}
	for _, r := range pending {
		listed = append(listed, r.Resource)
	}
	p.pending = pending
	return errors.Join(err, a.writeApplied(ctx, p.applied, listed))
}

// removeAll deletes objects that a work has made. It returns what is still there.
func (a *agent) removeAll(
	ctx context.Context, amw *workv1.AppliedManifestWork, made []workv1.AppliedManifestResourceMeta,
) ([]report.Remainder, error) {
	var pending []report.Remainder
	var problems []error
	for _, r := range made {
		left, err := a.applier.Remove(ctx, r, amw)
		if err != nil {
			problems = append(problems, fmt.Errorf("delete the %s: %w", report.NameOf(r), err))
		}
		if left != nil {
			pending = append(pending, report.Remainder{Resource: r, Finalizers: left.Finalizers})
		}
	}
	return pending, errors.Join(problems...)
}

// writeApplied writes the list of what a work has made when it has changed.
func (a *agent) writeApplied(
	ctx context.Context, amw *workv1.AppliedManifestWork, made []workv1.AppliedManifestResourceMeta,
) error {
	slices.SortFunc(made, func(x, y workv1.AppliedManifestResourceMeta) int {
		return cmp.Or(
			cmp.Compare(x.Group, y.Group), cmp.Compare(x.Version, y.Version), cmp.Compare(x.Resource, y.Resource),
			cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name),
		)
	})
	if apiequality.Semantic.DeepEqual(made, amw.Status.AppliedResources) {
		return nil
	}
	written, err := patch.Status(ctx, a.local, amw, func() bool {
		amw.Status.AppliedResources = made
		return true
	})
	if err != nil {
		return fmt.Errorf("list what the work %s has made: %w", amw.Spec.ManifestWorkName, err)
	}
	return stillThere(written, amw)
}
