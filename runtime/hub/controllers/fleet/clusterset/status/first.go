package status

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/membership"
)

// Resource is what FirstStatus is for.
func Resource() schema.GroupResource {
	return clusterv1beta2.GroupVersion.WithResource("managedclustersets").GroupResource()
}

// FirstStatus is the status of a set that is about to be created, so that the
// controller finds it right and has nothing to write. It is nil where the members
// are not known: before the controller runs, which is in one replica only, and for a
// set that can't be read.
func (m *Members) FirstStatus(u *unstructured.Unstructured) map[string]any {
	set := &clusterv1beta2.ManagedClusterSet{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, set); err != nil {
		return nil
	}
	selector, err := membership.Selector(set)
	if err != nil {
		return nil
	}
	number, known := m.first(selector)
	if !known {
		return nil
	}
	var status clusterv1beta2.ManagedClusterSetStatus
	meta.SetStatusCondition(&status.Conditions, condition(number))
	first, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		return nil
	}
	return first
}
