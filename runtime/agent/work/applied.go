package work

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/decide"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/manifest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/report"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// announce writes down what a work is about to make, before it is made. If the
// agent were killed between the two, and the manifest then removed, the object
// would be orphaned otherwise. It has no UID yet; bookkeep adds that.
func (a *agent) announce(ctx context.Context, l *look, amw *workv1.AppliedManifestWork) error {
	listed := slices.Clone(amw.Status.AppliedResources)
	l.fresh = map[*manifest.Manifest]bool{}
	for _, m := range decide.Announce(l.manifests, listed) {
		l.fresh[m] = true
		listed = append(listed, decide.ResourceMeta(m, ""))
	}
	return a.writeApplied(ctx, amw, listed)
}

// bookkeep writes down what a work has made and deletes what it no longer
// holds. pending is what of that is still there.
func (a *agent) bookkeep(
	ctx context.Context, mw *workv1.ManifestWork, amw *workv1.AppliedManifestWork, manifests []*manifest.Manifest, outcomes []report.Outcome,
) (pending []report.Remainder, err error) {
	books, ok := decide.Bookkeep(mw, amw.Status.AppliedResources, manifests, outcomes)
	if !ok {
		return nil, nil
	}
	pending, err = a.removeAll(ctx, amw, books.Dropped)
	if err != nil {
		err = fmt.Errorf("delete what the work %s no longer holds: %w", mw.Name, err)
	}
	for _, r := range pending {
		books.Listed = append(books.Listed, r.Resource)
	}
	return pending, errors.Join(err, a.writeApplied(ctx, amw, books.Listed))
}

// removeAll deletes objects that a work has made. It returns what is still there.
func (a *agent) removeAll(
	ctx context.Context, amw *workv1.AppliedManifestWork, made []workv1.AppliedManifestResourceMeta,
) ([]report.Remainder, error) {
	var remain []report.Remainder
	var problems []error
	for _, r := range made {
		left, err := a.applier.Remove(ctx, r, amw)
		if err != nil {
			problems = append(problems, fmt.Errorf("delete the %s: %w", report.NameOf(r), err))
		}
		if left != nil {
			remain = append(remain, report.Remainder{Resource: r, Finalizers: left.Finalizers})
		}
	}
	return remain, errors.Join(problems...)
}

// readable hides the remainders that the work's executor may not get. Only what a
// message names is asked about.
func (a *agent) readable(ctx context.Context, executor *workv1.ManifestWorkExecutor, left []report.Remainder) []report.Remainder {
	if executor == nil {
		return left
	}
	left = slices.Clone(left)
	slices.SortFunc(left, func(x, y report.Remainder) int {
		return cmp.Compare(report.NameOf(x.Resource), report.NameOf(y.Resource))
	})
	for i := range left {
		r := left[i].Resource
		gvr := schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Resource}
		left[i].Hidden = i >= report.MaxNamed || a.rights.MayRead(ctx, executor, gvr, r.Namespace, r.Name) != nil
	}
	return left
}

// writeApplied writes the list of what a work has made when it has changed.
func (a *agent) writeApplied(ctx context.Context, amw *workv1.AppliedManifestWork, made []workv1.AppliedManifestResourceMeta) error {
	slices.SortFunc(made, func(x, y workv1.AppliedManifestResourceMeta) int {
		return cmp.Or(cmp.Compare(x.Group, y.Group), cmp.Compare(x.Version, y.Version), cmp.Compare(x.Resource, y.Resource),
			cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	})
	if apiequality.Semantic.DeepEqual(made, amw.Status.AppliedResources) {
		return nil
	}
	before := amw.DeepCopy()
	amw.Status.AppliedResources = made
	if err := a.local.Status().Patch(ctx, amw, changesSince(before)); err != nil {
		return fmt.Errorf("write down what the work %s has made: %w", amw.Spec.ManifestWorkName, err)
	}
	return nil
}
