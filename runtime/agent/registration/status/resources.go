package status

import (
	"maps"

	corev1 "k8s.io/api/core/v1"

	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// sum adds up what all nodes have, and what pods may use on those that are
// schedulable.
func sum(nodes []*corev1.Node) (capacity, allocatable clusterv1.ResourceList) {
	capacity, allocatable = clusterv1.ResourceList{}, clusterv1.ResourceList{}
	for _, n := range nodes {
		add(capacity, n.Status.Capacity)
		if !n.Spec.Unschedulable {
			add(allocatable, n.Status.Allocatable)
		}
	}
	return capacity, allocatable
}

func add(total clusterv1.ResourceList, more corev1.ResourceList) {
	for name, quantity := range more {
		q := total[clusterv1.ResourceName(name)]
		q.Add(quantity)
		total[clusterv1.ResourceName(name)] = q
	}
}

// merge is the capacity to report: others may have added quantities of their
// own, which stay.
func merge(old, nodes clusterv1.ResourceList) clusterv1.ResourceList {
	if len(old) == 0 && len(nodes) == 0 {
		return nil
	}
	merged := clusterv1.ResourceList{}
	maps.Copy(merged, old)
	maps.Copy(merged, nodes)
	return merged
}

// stripNode leaves of a node what sum looks at. Nodes are big, and their
// agents report often.
func stripNode(n *corev1.Node) {
	n.Labels, n.Annotations = nil, nil
	n.Spec = corev1.NodeSpec{Unschedulable: n.Spec.Unschedulable}
	n.Status = corev1.NodeStatus{Capacity: n.Status.Capacity, Allocatable: n.Status.Allocatable}
}

func sameNode(a, b *corev1.Node) bool {
	return a.Spec.Unschedulable == b.Spec.Unschedulable &&
		sameQuantities(a.Status.Capacity, b.Status.Capacity) && sameQuantities(a.Status.Allocatable, b.Status.Allocatable)
}

func sameQuantities(a, b corev1.ResourceList) bool {
	if len(a) != len(b) {
		return false
	}
	for name, q := range a {
		other, ok := b[name]
		if !ok || q.Cmp(other) != 0 {
			return false
		}
	}
	return true
}
