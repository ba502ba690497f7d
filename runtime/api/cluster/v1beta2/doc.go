// Package v1beta2 holds the grouping kinds of the API group
// cluster.open-cluster-management.io: ManagedClusterSet and
// ManagedClusterSetBinding.
//
// A set gathers managed clusters, usually those of one team, stage or region. It
// is cluster scoped and grants nothing by itself. A binding, created in a
// namespace, lets the placements of that namespace draw from the set; creating
// one needs the permission "create" on managedclustersets/bind, and putting a
// cluster into a set needs "create" on managedclustersets/join.
//
// +kubebuilder:object:generate=true
// +groupName=cluster.open-cluster-management.io
package v1beta2
