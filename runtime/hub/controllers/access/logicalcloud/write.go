package logicalcloud

import (
	"context"
	"fmt"
	"maps"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/recovery"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// atOnce is how many clusters are written to at a time.
const atOnce = 10

// carryOut writes and deletes what the plan says. An error in one cluster stops
// no other one: it becomes the cluster's state, and the first one is returned.
func (c *Controller) carryOut(ctx context.Context, p plan) error {
	errs := make([]error, len(p.clusters))
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i, st := range p.clusters {
		group.Go(func() error {
			errs[i] = c.step(ctx, st)
			return nil
		})
	}
	_ = group.Wait()
	var first error
	for i, err := range errs {
		if err == nil {
			continue
		}
		if !apierrors.IsConflict(err) {
			p.clusters[i].fail("WriteFailed", "%v", err)
		}
		if first == nil {
			first = fmt.Errorf("cluster %s: %w", p.clusters[i].name, err)
		}
	}
	return first
}

// step does what there is to do in one cluster. The work comes before the removal
// of the probe that has called for it.
func (c *Controller) step(ctx context.Context, st *step) (err error) {
	defer recovery.Into(&err)
	for _, w := range [][2]*workv1.ManifestWork{{st.have, st.write}, {st.asked, st.ask}} {
		if w[1] == nil {
			continue
		}
		if err := c.write(ctx, w[0], w[1]); err != nil {
			return err
		}
	}
	for _, w := range st.remove {
		gone := &workv1.ManifestWork{}
		gone.Namespace, gone.Name = w.Namespace, w.Name
		err := c.client.Delete(ctx, gone, client.Preconditions{UID: &w.UID, ResourceVersion: &w.ResourceVersion})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete the work %s: %w", w.Name, err)
		}
	}
	return nil
}

// write creates a work, or gives one its content. What agents and others have
// added to its metadata stays.
func (c *Controller) write(ctx context.Context, have, want *workv1.ManifestWork) error {
	if have == nil {
		err := c.client.Create(ctx, want)
		switch {
		case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
			return nil // the cluster is being removed, and its placements will change
		case apierrors.IsAlreadyExists(err):
			return nil // the cache is behind, and an event follows
		case err != nil:
			return fmt.Errorf("create the work %s: %w", want.Name, err)
		}
		return nil
	}
	w := have.DeepCopy()
	w.Spec = want.Spec
	for _, m := range []struct{ have, want *map[string]string }{{&w.Labels, &want.Labels}, {&w.Annotations, &want.Annotations}} {
		if *m.have == nil {
			*m.have = map[string]string{}
		}
		maps.Copy(*m.have, *m.want)
	}
	err := c.client.Update(ctx, w)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("update the work %s: %w", w.Name, err)
	}
	return nil
}
