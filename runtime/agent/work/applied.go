package work

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// announce writes down what a work is about to make, before it is made. Were the
// agent killed between the two, and the manifest then dropped, nobody would know
// of the object otherwise. It has no UID yet; bookkeep adds that.
func (a *agent) announce(ctx context.Context, amw *workv1.AppliedManifestWork, manifests []*manifest) error {
	listed := slices.Clone(amw.Status.AppliedResources)
	known := byIdentifier(listed)
	for _, m := range manifests {
		if !m.identified() || !m.owned {
			continue
		}
		if _, ok := known[m.identifier()]; !ok {
			m.fresh = true
			listed = append(listed, resourceMeta(m, ""))
		}
	}
	return a.writeApplied(ctx, amw, listed)
}

// bookkeep writes down what a work has made and deletes what it no longer
// holds. pending is what of that is still there.
//
// Until a work has been reported as applied once, nothing is deleted: a hub
// that was restored from a backup first sees what there is. And while the
// identity of any of its objects is not known, nothing is deleted either.
func (a *agent) bookkeep(ctx context.Context, mw *workv1.ManifestWork, amw *workv1.AppliedManifestWork, manifests []*manifest, outcomes []outcome) (pending []remainder, err error) {
	var held []workv1.AppliedManifestResourceMeta
	known := byIdentifier(amw.Status.AppliedResources)
	wanted := make(map[workv1.ResourceIdentifier]bool, len(manifests))
	for i, m := range manifests {
		wanted[m.identifier()] = true
		switch o := outcomes[i]; {
		case m.identified() && o.hidden:
			if r, ok := known[m.identifier()]; ok {
				held = append(held, r) // whatever has become of it
			}
		case !m.identified() || !o.known():
			return nil, nil
		case o.exists:
			held = append(held, resourceMeta(m, o.uid))
		case m.owned: // still to be made
			held = append(held, resourceMeta(m, ""))
		}
	}
	prune := meta.FindStatusCondition(mw.Status.Conditions, work.ConditionApplied) != nil
	var problems []error
	for _, r := range amw.Status.AppliedResources {
		if wanted[r.ResourceIdentifier] {
			continue
		}
		if !prune {
			held = append(held, r)
			continue
		}
		left, err := a.objects.remove(ctx, r, amw)
		if err != nil {
			problems = append(problems, fmt.Errorf("delete the %s, which the work %s no longer holds: %w", nameOf(r), mw.Name, err))
		}
		if left != nil {
			held, pending = append(held, r), append(pending, *left)
		}
	}
	if err := a.writeApplied(ctx, amw, held); err != nil {
		problems = append(problems, err)
	}
	return pending, errors.Join(problems...)
}

// byIdentifier is a list of resources to look things up in.
func byIdentifier(resources []workv1.AppliedManifestResourceMeta) map[workv1.ResourceIdentifier]workv1.AppliedManifestResourceMeta {
	out := make(map[workv1.ResourceIdentifier]workv1.AppliedManifestResourceMeta, len(resources))
	for _, r := range resources {
		out[r.ResourceIdentifier] = r
	}
	return out
}

func resourceMeta(m *manifest, uid types.UID) workv1.AppliedManifestResourceMeta {
	return workv1.AppliedManifestResourceMeta{
		ResourceIdentifier: m.identifier(), Version: m.meta.Version, UID: string(uid),
	}
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
	if err := a.local.Status().Patch(ctx, amw, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("write down what the work %s has made: %w", amw.Spec.ManifestWorkName, err)
	}
	return nil
}

// remove deletes one object that a work has made, unless it is somebody else's
// by now. It returns what is left of it, or nil when there is nothing to wait
// for.
func (o *objects) remove(ctx context.Context, r workv1.AppliedManifestResourceMeta, amw *workv1.AppliedManifestWork) (*remainder, error) {
	gvr := schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Resource}
	live, err := o.get(ctx, gvr, r.Namespace, r.Name)
	if err != nil {
		return &remainder{resource: r}, err
	}
	if live == nil {
		return nil, nil
	}
	mine, others := owners(live.GetOwnerReferences(), amw.UID)
	switch {
	case !mine:
		return nil, nil // orphaned, or taken away from us
	case others:
		resource := o.resource(gvr, r.Namespace)
		if _, err := setOwner(ctx, resource, live, metav1.OwnerReference{UID: amw.UID}, false); client.IgnoreNotFound(err) != nil {
			return remains(r, live), err
		}
		return nil, nil
	case r.UID != "" && r.UID != string(live.GetUID()):
		return nil, nil // another object of the same name
	case live.GetDeletionTimestamp() != nil:
		return remains(r, live), nil
	}
	background := metav1.DeletePropagationBackground
	uid := live.GetUID()
	err = o.resource(gvr, r.Namespace).Delete(ctx, r.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &uid}, PropagationPolicy: &background,
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil, nil
	}
	if err != nil {
		return remains(r, live), err
	}
	// Most objects are gone at once.
	if live, err = o.get(ctx, gvr, r.Namespace, r.Name); err != nil {
		return &remainder{resource: r}, err
	}
	if live == nil || live.GetUID() != uid {
		return nil, nil
	}
	return remains(r, live), nil
}
