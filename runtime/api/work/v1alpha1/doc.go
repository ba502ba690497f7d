// Package v1alpha1 holds ManifestWorkReplicaSet, the kind of the API group
// work.open-cluster-management.io that puts one and the same ManifestWork into
// every cluster of a placement.
//
// It is to ManifestWork what a Deployment is to a Pod: a template, a set of places
// to put copies of it, and a strategy for rolling out changes of the template. Its
// controller runs on the hub and only ever writes ManifestWorks; the agents do not
// know of the replica set.
//
// +kubebuilder:object:generate=true
// +groupName=work.open-cluster-management.io
package v1alpha1
