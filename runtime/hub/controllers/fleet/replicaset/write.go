package replicaset

import (
	"context"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/apply"
)

// carryOut deletes and writes what the plan says, and adds the works that it
// wrote to their outcomes.
func (c *Controller) carryOut(ctx context.Context, set *workv1alpha1.ManifestWorkReplicaSet, p *plan) error {
	// First what is to go: a work may have moved to another placement.
	err := c.deleteAll(ctx, keysOf(p.deletes))
	written := make([]*workv1.ManifestWork, len(p.writes))
	failed := apply.Parallel(len(p.writes), func(i int) (err error) {
		w := p.writes[i]
		if w.work == nil {
			written[i], err = c.create(ctx, set, w.cluster, p.outcomes[w.placement].name)
		} else {
			written[i], err = c.update(ctx, set, w.work, p.outcomes[w.placement].name)
		}
		return err
	})
	for i, w := range p.writes {
		o := &p.outcomes[w.placement]
		had := false
		for j := range o.works {
			if w.work != nil && o.works[j].UID == w.work.UID {
				had = true // only its labels were changed
			}
		}
		if written[i] != nil && !had {
			o.works = append(o.works, written[i])
		}
	}
	return errors.Join(err, failed)
}

// create makes the work of a cluster.
func (c *Controller) create(ctx context.Context, set *workv1alpha1.ManifestWorkReplicaSet, cluster, placement string) (*workv1.ManifestWork, error) {
	w := &workv1.ManifestWork{}
	w.Namespace, w.GenerateName, w.Labels = cluster, set.Name, labelsOf(set, placement)
	w.Spec = *set.Spec.ManifestWorkTemplate.DeepCopy()
	markWriteOnly(w, set)
	err := c.client.Create(ctx, w)
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil, nil // the cluster is being removed, and its placements will change
	case err != nil:
		return nil, fmt.Errorf("create the work of the cluster %s: %w", cluster, err)
	}
	return w, nil
}

// update gives a work the template. What others added to its metadata stays.
func (c *Controller) update(ctx context.Context, set *workv1alpha1.ManifestWorkReplicaSet, have *workv1.ManifestWork, placement string) (*workv1.ManifestWork, error) {
	w := have.DeepCopy()
	change := func() error {
		w.Spec = *set.Spec.ManifestWorkTemplate.DeepCopy()
		if w.Labels == nil {
			w.Labels = map[string]string{}
		}
		maps.Copy(w.Labels, labelsOf(set, placement))
		markWriteOnly(w, set)
		return c.client.Update(ctx, w)
	}
	err := change()
	if apierrors.IsConflict(err) { // mostly the agent, which writes finalizers and the status
		err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
			w = &workv1.ManifestWork{}
			if err := c.live.Get(ctx, client.ObjectKeyFromObject(have), w); err != nil || w.UID != have.UID {
				return err
			}
			return change()
		})
	}
	switch {
	case apierrors.IsNotFound(err), err == nil && w.UID != have.UID:
		return nil, nil // its deletion leads to another pass
	case err != nil:
		return nil, fmt.Errorf("update the work %s: %w", client.ObjectKeyFromObject(have), err)
	}
	return w, nil
}

// markWriteOnly notes on a work which of its manifests its author does not want to
// read back, as the set does. Of the set's annotations works get this one alone.
func markWriteOnly(w *workv1.ManifestWork, set *workv1alpha1.ManifestWorkReplicaSet) {
	note, noted := set.Annotations[work.WriteOnlyAnnotation]
	if !noted {
		delete(w.Annotations, work.WriteOnlyAnnotation)
		return
	}
	if w.Annotations == nil {
		w.Annotations = map[string]string{}
	}
	w.Annotations[work.WriteOnlyAnnotation] = note
}

// key is one particular work.
type key struct {
	types.NamespacedName
	uid types.UID
}

func keysOf(works []*workv1.ManifestWork) (out []key) {
	for _, w := range works {
		out = append(out, key{client.ObjectKeyFromObject(w), w.UID})
	}
	return out
}

func (c *Controller) deleteAll(ctx context.Context, keys []key) error {
	return apply.Parallel(len(keys), func(i int) error {
		w := &workv1.ManifestWork{}
		w.Namespace, w.Name = keys[i].Namespace, keys[i].Name
		err := c.client.Delete(ctx, w, client.Preconditions{UID: &keys[i].uid})
		// A conflict means that the work of that name is another one by now.
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("delete the work %s: %w", keys[i].NamespacedName, err)
		}
		return nil
	})
}
