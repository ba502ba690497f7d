package deploy

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/works"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// carryOut writes works, and returns those that there are then.
func (c *Controller) carryOut(ctx context.Context, have []*workv1.ManifestWork, changes []works.Change) ([]*workv1.ManifestWork, error) {
	out := slices.Clone(have)
	var problems []error
	for _, change := range changes {
		if err := c.write(ctx, change); err != nil {
			problems = append(problems, err)
			continue
		}
		switch {
		case change.Want == nil:
			out = slices.DeleteFunc(out, func(w *workv1.ManifestWork) bool { return w == change.Have })
		case change.Have == nil:
			out = append(out, change.Want)
		}
	}
	return out, errors.Join(problems...)
}

func (c *Controller) write(ctx context.Context, change works.Change) error {
	switch {
	case change.Want == nil:
		return c.delete(ctx, change.Have)
	case change.Have == nil:
		return c.create(ctx, change)
	}
	return c.patch(ctx, change)
}

func (c *Controller) patch(ctx context.Context, change works.Change) error {
	data, err := change.Patch()
	if err != nil {
		return err
	}
	w := &workv1.ManifestWork{}
	w.Namespace, w.Name = change.Have.Namespace, change.Have.Name
	if err := c.client.Patch(ctx, w, client.RawPatch(types.MergePatchType, data)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("patch the work %s: %w", w.Name, err)
	}
	return nil
}

// create makes a work. One of its name that the cache does not know of belongs to
// somebody else, or the cache is behind.
func (c *Controller) create(ctx context.Context, change works.Change) error {
	w := change.Want.DeepCopy()
	err := c.client.Create(ctx, w)
	switch {
	case err == nil, apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil // or the cluster is being removed
	case !apierrors.IsAlreadyExists(err):
		return fmt.Errorf("create the work %s: %w", w.Name, err)
	}
	there := &workv1.ManifestWork{}
	if err := c.live.Get(ctx, client.ObjectKeyFromObject(w), there); err != nil {
		return client.IgnoreNotFound(err)
	}
	for key, value := range w.Labels {
		if there.Labels[key] == value {
			continue
		}
		if ours := metav1.GetControllerOf(w); ours != nil && metav1.IsControlledBy(there, &metav1.ObjectMeta{UID: ours.UID}) {
			return c.patch(ctx, works.Change{Have: there, Want: change.Want}) // somebody has taken the label away
		}
		return fmt.Errorf("there is a work %s already that is not the add-on's, as it lacks the label %s: %s: delete it, or add the label if the add-on may overwrite it",
			w.Name, key, value)
	}
	return nil // an event follows
}

func (c *Controller) delete(ctx context.Context, have *workv1.ManifestWork) error {
	if !have.DeletionTimestamp.IsZero() {
		return nil
	}
	w := &workv1.ManifestWork{}
	w.Namespace, w.Name = have.Namespace, have.Name
	err := c.client.Delete(ctx, w, client.Preconditions{UID: &have.UID})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete the work %s: %w", w.Name, err)
	}
	return nil
}

// setFinalizers adds and removes finalizers of an add-on.
func (c *Controller) setFinalizers(ctx context.Context, p *pass, change func(have []string) []string) error {
	_, err := patch.Object(ctx, c.client, p.addOn, func() bool {
		want := change(slices.Clone(p.addOn.Finalizers))
		changed := !slices.Equal(want, p.addOn.Finalizers)
		p.addOn.Finalizers = want
		return changed
	})
	if err != nil {
		return fmt.Errorf("change the finalizers of the add-on %s of the cluster %s: %w", p.addOn.Name, p.addOn.Namespace, err)
	}
	return nil
}
