// Package v1alpha1 holds the kind ClusterProfile of the API group
// multicluster.x-k8s.io, in which cluster managers of any kind publish the
// clusters that they know.
//
// +kubebuilder:object:generate=true
// +groupName=multicluster.x-k8s.io
package v1alpha1
