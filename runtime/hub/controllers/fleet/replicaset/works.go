package replicaset

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/apply"
	"github.com/muster-fleet/terraform-provider-muster/runtime/override"
)

// works is where the works of sets are found.
type works struct {
	client.Reader
	// of selects the works of a set by the value of their label.
	of func(label string) client.ListOption
}

// liveWorks finds works on the server.
func liveWorks(r client.Reader) works {
	return works{Reader: r, of: func(label string) client.ListOption { return client.MatchingLabels{work.ReplicaSetLabel: label} }}
}

// ReadWorksFrom has the controller find works through r instead of past the cache, until
// Register gives it a cache of its own.
func (c *Controller) ReadWorksFrom(r client.Reader) { c.works = liveWorks(r) }

// labelValue is what the works of a set have in the label that names it.
func labelValue(set *workv1alpha1.ManifestWorkReplicaSet) string {
	return set.Namespace + "." + set.Name
}

// invalidName explains why the works of a set can't be labelled.
func invalidName(set *workv1alpha1.ManifestWorkReplicaSet) (problem string, invalid bool) {
	problems := validation.IsValidLabelValue(labelValue(set))
	return strings.Join(problems, "; "), len(problems) > 0
}

// setOf is the set that a work's label names. Names may have dots, namespaces
// not, so the first one is between them.
func setOf(label string) (set types.NamespacedName, ok bool) {
	namespace, name, ok := strings.Cut(label, ".")
	return types.NamespacedName{Namespace: namespace, Name: name}, ok && namespace != "" && name != ""
}

// labelsOf are the labels of a set's works for a placement.
func labelsOf(set *workv1alpha1.ManifestWorkReplicaSet, placement string) map[string]string {
	labels := map[string]string{}
	maps.Copy(labels, set.Labels)
	labels[work.ReplicaSetLabel] = labelValue(set)
	labels[work.PlacementNameLabel] = placement
	return labels
}

// cached are the works of a set that the cache has. Nobody may change them.
func (c *Controller) cached(ctx context.Context, set *workv1alpha1.ManifestWorkReplicaSet) ([]*workv1.ManifestWork, error) {
	list := &workv1.ManifestWorkList{}
	if err := c.works.List(ctx, list, c.works.of(labelValue(set)), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the works: %w", err)
	}
	out := make([]*workv1.ManifestWork, 0, len(list.Items))
	for i := range list.Items {
		out = append(out, &list.Items[i])
	}
	return out, nil
}

// onServer are the works of a set that the server has.
func (c *Controller) onServer(ctx context.Context, set *workv1alpha1.ManifestWorkReplicaSet) ([]metav1.PartialObjectMetadata, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(workv1.GroupVersion.WithKind("ManifestWorkList"))
	if err := c.live.List(ctx, list, client.MatchingLabels{work.ReplicaSetLabel: labelValue(set)}); err != nil {
		return nil, fmt.Errorf("list the works of the ManifestWorkReplicaSet %s: %w", client.ObjectKeyFromObject(set), err)
	}
	return list.Items, nil
}

// carryOut deletes and writes what the plan says, and adds the works that it
// wrote to their outcomes.
func (c *Controller) carryOut(ctx context.Context, set *workv1alpha1.ManifestWorkReplicaSet, p *plan) error {
	// First what is to go: a work may have moved to another placement.
	err := c.deleteAll(ctx, keysOf(p.deletes))
	written := make([]*workv1.ManifestWork, len(p.writes))
	var unsure atomic.Bool
	failed := apply.Parallel(len(p.writes), func(i int) (err error) {
		w := p.writes[i]
		if w.work == nil {
			written[i], err = c.create(ctx, set, p.template, w.cluster, p.outcomes[w.placement].name)
		} else {
			written[i], err = c.update(ctx, set, p.template, w.work, p.outcomes[w.placement].name)
		}
		if err != nil && !refused(err) {
			unsure.Store(true)
		}
		return err
	})
	if unsure.Load() {
		c.known.forget(client.ObjectKeyFromObject(set))
	}
	account, now := c.known.of(set), c.clock.Now()
	if err == nil {
		for _, w := range p.deletes {
			account.wrote(w, 0, now)
		}
	}
	for i, w := range p.writes {
		if written[i] != nil {
			account.wrote(written[i], written[i].Generation, now)
		}
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
func (c *Controller) create(
	ctx context.Context, set *workv1alpha1.ManifestWorkReplicaSet, template *override.Template, cluster, placement string,
) (*workv1.ManifestWork, error) {
	spec, err := c.specFor(ctx, set, template, cluster)
	if err != nil {
		return nil, fmt.Errorf("make the work of the cluster %s: %w", cluster, err)
	}
	w := &workv1.ManifestWork{Spec: spec}
	w.Namespace, w.GenerateName, w.Labels = cluster, set.Name, labelsOf(set, placement)
	markWriteOnly(w, set)
	err = apply.CreateWork(ctx, c.client, w)
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil, nil // the cluster is being removed, and its placements will change
	case err != nil:
		return nil, fmt.Errorf("create the work of the cluster %s: %w", cluster, err)
	}
	return w, nil
}

// update gives a work the content of its cluster. What others added to its metadata stays.
func (c *Controller) update(
	ctx context.Context, set *workv1alpha1.ManifestWorkReplicaSet, template *override.Template, have *workv1.ManifestWork,
	placement string,
) (*workv1.ManifestWork, error) {
	spec, err := c.specFor(ctx, set, template, have.Namespace)
	if err != nil {
		return nil, fmt.Errorf("update the work %s: %w", client.ObjectKeyFromObject(have), err)
	}
	w := have.DeepCopy()
	change := func() error {
		w.Spec = *spec.DeepCopy()
		if w.Labels == nil {
			w.Labels = map[string]string{}
		}
		maps.Copy(w.Labels, labelsOf(set, placement))
		markWriteOnly(w, set)
		return c.client.Update(ctx, w)
	}
	err = change()
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
