// Package v1alpha1 holds the kind ClusterProperty of the API group about.k8s.io,
// in which a cluster states facts about itself. Its definition is not muster's to
// install: clusters that use it have it.
//
// +kubebuilder:object:generate=true
// +groupName=about.k8s.io
package v1alpha1
