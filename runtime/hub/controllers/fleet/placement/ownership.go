package placement

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

// disposable reports whether a placement may delete a decision that it does not
// want. It may not delete one that another placement owns and is about to label
// again, nor one that only has a name like its own.
func disposable(d *clusterv1beta1.PlacementDecision, p *clusterv1beta1.Placement) bool {
	owner := metav1.GetControllerOf(d)
	if owner == nil || owner.Kind != "Placement" || owner.Name == p.Name {
		return d.Labels[cluster.PlacementLabel] == p.Name || metav1.IsControlledBy(d, p)
	}
	return false
}

// owned reports whether a decision has the labels and the owner that it should
// have.
func owned(d *clusterv1beta1.PlacementDecision, p *clusterv1beta1.Placement, labels map[string]string) bool {
	for key, want := range labels {
		if have, ok := d.Labels[key]; !ok || have != want {
			return false
		}
	}
	return metav1.IsControlledBy(d, p)
}

// own gives a decision the labels and the owner that it should have, and leaves
// what others added.
func own(d *clusterv1beta1.PlacementDecision, p *clusterv1beta1.Placement, labels map[string]string) {
	if d.Labels == nil {
		d.Labels = map[string]string{}
	}
	maps.Copy(d.Labels, labels)
	if metav1.IsControlledBy(d, p) {
		return
	}
	// The owner may be a placement of the same name that is gone. Its decisions
	// would soon be collected, although this placement wants them.
	owners := slices.DeleteFunc(slices.Clone(d.OwnerReferences), func(o metav1.OwnerReference) bool {
		return ptr.Deref(o.Controller, false) || o.UID == p.UID
	})
	d.OwnerReferences = append(owners, metav1.OwnerReference{
		APIVersion: clusterv1beta1.GroupVersion.String(), Kind: "Placement", Name: p.Name, UID: p.UID,
		Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
	})
}
