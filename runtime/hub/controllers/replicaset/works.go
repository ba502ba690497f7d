package replicaset

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/creationtimestamp"
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

// labelValue is what the works of a set have in the label that names it.
func labelValue(set *workv1alpha1.ManifestWorkReplicaSet) string {
	return set.Namespace + "." + set.Name
}

// invalidName tells why the works of a set can't be labelled.
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

// lean takes out of a work what the controller's cache need not hold: a fleet
// has the manifests of one template many times over, and all that matters of
// them is whether they are the template's.
func lean(o any) (any, error) {
	w, ok := o.(*workv1.ManifestWork)
	if !ok {
		return o, nil // a tombstone
	}
	w.ManagedFields = nil
	w.Spec = workv1.ManifestWorkSpec{Workload: workv1.ManifestsTemplate{Manifests: []workv1.Manifest{
		{RawExtension: runtime.RawExtension{Raw: []byte(digest(w.Spec))}},
	}}}
	var kept []metav1.Condition
	for _, condition := range w.Status.Conditions {
		switch condition.Type {
		case work.ConditionApplied, work.ConditionAvailable, work.ConditionProgressing, work.ConditionDegraded:
			condition.Message = ""
			kept = append(kept, condition)
		}
	}
	w.Status = workv1.ManifestWorkStatus{Conditions: kept}
	return w, nil
}

// digestPrefix begins digests. No manifest on the wire does, as they are objects.
const digestPrefix = "sha256:"

// digest identifies the content of a spec: equal digests mean that the specs
// say the same. Of a spec in the controller's cache it is all that is left.
func digest(spec workv1.ManifestWorkSpec) string {
	manifests := spec.Workload.Manifests
	if len(manifests) == 1 && bytes.HasPrefix(manifests[0].Raw, []byte(digestPrefix)) {
		return string(manifests[0].Raw)
	}
	var all []byte
	add := func(part []byte) { all = append(fmt.Appendf(all, "%d ", len(part)), part...) }
	spec.Workload.Manifests = nil
	rest, err := json.Marshal(spec)
	if err != nil {
		rest = []byte(err.Error()) // these fields can all be marshalled
	}
	add(rest)
	for _, m := range manifests {
		add(canonical(m.Raw))
	}
	sum := sha256.Sum256(all)
	return digestPrefix + hex.EncodeToString(sum[:])
}

// canonical writes a manifest in the one way that does not depend on the order
// of keys and on spaces, and without the empty creationTimestamps that Go's
// types leave in manifests.
func canonical(raw []byte) []byte {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		return raw
	}
	creationtimestamp.RemoveNull(v)
	out, err := json.Marshal(v)
	if err != nil {
		return raw
	}
	return out
}

// behind tells whether the snapshot's works are other than those on the server.
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
