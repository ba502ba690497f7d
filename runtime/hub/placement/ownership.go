package placement

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

// belongs reports whether a decision is a placement's: by its label, its owner
// or its name. Any of them is enough, because somebody may have edited the
// others; a decision that is not recognised could never be made anew, as its
// name is taken.
func belongs(d *clusterv1beta1.PlacementDecision, p *clusterv1beta1.Placement) bool {
	if d.Namespace != p.Namespace {
		return false
	}
	if d.Labels[cluster.PlacementLabel] == p.Name || metav1.IsControlledBy(d, p) {
		return true
	}
	number, ok := strings.CutPrefix(d.Name, p.Name+"-decision-")
	_, err := strconv.ParseUint(number, 10, 32)
	return ok && err == nil
}

// disposable reports whether a placement may delete a decision that it does not
// want: not one that another placement owns and is about to label anew, nor one
// that only has a name like its own.
func disposable(d *clusterv1beta1.PlacementDecision, p *clusterv1beta1.Placement) bool {
	owner := metav1.GetControllerOf(d)
	if owner == nil || owner.Kind != "Placement" || owner.Name == p.Name {
		return d.Labels[cluster.PlacementLabel] == p.Name || metav1.IsControlledBy(d, p)
	}
	return false
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
