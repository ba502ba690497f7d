package replicaset

import (
	"context"
	"fmt"
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
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

// behind reports whether the snapshot's works are other than those on the server.
//
// What to write depends on which clusters have the template. A cache that lacks
// the last writes, by this process or by one that was killed in the middle, would
// lead to a second work for a cluster, since works have generated names, or to
// one cluster more than the strategy allows.
func (c *Controller) behind(ctx context.Context, s snapshot) (bool, error) {
	there, err := c.onServer(ctx, s.set)
	if err != nil {
		return false, err
	}
	if len(there) != len(s.works) {
		return true, nil
	}
	generations := map[types.UID]int64{}
	for i := range there {
		generations[there[i].UID] = there[i].Generation
	}
	for _, w := range s.works {
		if g, ok := generations[w.UID]; !ok || g != w.Generation {
			return true, nil
		}
	}
	return false, nil
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
