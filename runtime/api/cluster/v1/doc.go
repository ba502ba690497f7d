// Package v1 holds the ManagedCluster kind of the API group
// cluster.open-cluster-management.io.
//
// A ManagedCluster lives on the hub, is cluster scoped, and stands for one
// Kubernetes cluster of the fleet. Three parties write to it, each to its own
// part:
//
//   - the agent in the managed cluster creates the object when it registers,
//     and afterwards keeps status.version, status.capacity,
//     status.allocatable, status.clusterClaims and its own conditions up to date;
//   - an administrator (or Terraform) sets spec.hubAcceptsClient, labels,
//     annotations and taints;
//   - the hub's controllers write the acceptance, availability and clock
//     conditions, the taints that follow from availability, and
//     status.managedNamespaces.
//
// The strings that travel in labels, annotations, conditions and object names
// are in package cluster, one directory up.
//
// # Zero values on the wire
//
// The types are made for clients that send only what they mean. A field whose
// zero value is a statement of its own is a pointer (HubAcceptsClient,
// Taint.TimeAdded); every other optional field is left out when it is empty, so
// that a server-side apply never claims, and a merge patch never resets, a field
// that the caller did not touch.
//
// +kubebuilder:object:generate=true
// +groupName=cluster.open-cluster-management.io
package v1
