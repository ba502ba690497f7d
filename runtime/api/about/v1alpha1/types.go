// Package v1alpha1 holds the kind ClusterProperty of the API group about.k8s.io,
// in which a cluster states facts about itself. Its definition is not muster's to
// install: clusters that use it have it.
//
// +kubebuilder:object:generate=true
// +groupName=about.k8s.io
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of every kind in this package. Package kinds
// adds the kinds to a scheme.
var GroupVersion = schema.GroupVersion{Group: "about.k8s.io", Version: "v1alpha1"}

// ClusterProperty is a fact about the cluster that it is in; its name says which.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
type ClusterProperty struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is the fact.
	// +optional
	Spec ClusterPropertySpec `json:"spec,omitzero"`
}

// ClusterPropertySpec is a fact about a cluster.
type ClusterPropertySpec struct {
	// value is what is the case.
	// +required
	Value string `json:"value"`
}

// ClusterPropertyList is a list of properties.
//
// +kubebuilder:object:root=true
type ClusterPropertyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	// items are the properties.
	Items []ClusterProperty `json:"items"`
}
