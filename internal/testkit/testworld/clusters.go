package testworld

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
)

// BoundSet makes a namespace with a cluster set that is bound in it, and returns
// the name that all three have.
func (w *World) BoundSet() string {
	w.Helper()
	name := w.Namespace()
	w.Make(Set(name))
	w.Make(Binding(name))
	return name
}

// Set is a cluster set whose members are chosen by its own label.
func Set(name string) *clusterv1beta2.ManagedClusterSet {
	return &clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// Binding binds a cluster set in the namespace of the same name.
func Binding(name string) *clusterv1beta2.ManagedClusterSetBinding {
	return &clusterv1beta2.ManagedClusterSetBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: name},
		Spec:       clusterv1beta2.ManagedClusterSetBindingSpec{ClusterSet: name},
	}
}

// Member is a cluster of a set, which is named after both and has its own name
// as a label, too.
func Member(set, name string) *clusterv1.ManagedCluster {
	return &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{
		Name: set + "-" + name, Labels: map[string]string{cluster.ClusterSetLabel: set, "name": name},
	}}
}
