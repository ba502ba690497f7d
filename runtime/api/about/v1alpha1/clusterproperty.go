package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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
