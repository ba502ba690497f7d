// Package v1alpha1 holds the kind ClusterProfile of the API group
// multicluster.x-k8s.io, in which cluster managers of any kind publish the
// clusters that they know.
//
// +kubebuilder:object:generate=true
// +groupName=multicluster.x-k8s.io
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/multicluster"
)

// GroupVersion is the group and version of every kind in this package. Package kinds
// adds the kinds to a scheme.
var GroupVersion = schema.GroupVersion{Group: multicluster.GroupName, Version: "v1alpha1"}

// ClusterProfile is one cluster as its cluster manager presents it in a
// namespace. A reader needs to know nothing about the manager.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced
type ClusterProfile struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec says which cluster it is, and who manages it.
	// +required
	Spec ClusterProfileSpec `json:"spec"`

	// status is what the cluster manager reports about the cluster.
	// +optional
	Status ClusterProfileStatus `json:"status,omitzero"`
}

// ClusterProfileSpec says which cluster it is, and who manages it.
type ClusterProfileSpec struct {
	// displayName is a name for people.
	// +optional
	DisplayName string `json:"displayName,omitempty"`

	// clusterManager is who keeps the profile. It can't be changed.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="ClusterManager is immutable"
	ClusterManager ClusterManager `json:"clusterManager"`
}

// ClusterManager is a program that keeps cluster profiles.
type ClusterManager struct {
	// name distinguishes it from other cluster managers; the label
	// x-k8s.io/cluster-manager says the same.
	// +required
	Name string `json:"name"`
}

// ClusterProfileStatus is what a cluster manager reports about a cluster.
type ClusterProfileStatus struct {
	// conditions: ControlPlaneHealthy is the availability of the cluster's API
	// server, Joined says whether the cluster has joined its hub.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// version is what the cluster runs.
	// +optional
	Version ClusterVersion `json:"version,omitzero"`

	// properties are facts about the cluster, from its claims.
	// +optional
	// +listType=map
	// +listMapKey=name
	Properties []Property `json:"properties,omitempty"`
}

// ClusterVersion is what a cluster runs.
type ClusterVersion struct {
	// kubernetes is the version of the cluster's API server.
	// +optional
	Kubernetes string `json:"kubernetes,omitempty"`
}

// Property is a fact about a cluster.
type Property struct {
	// name is the fact's name, such as id.k8s.io.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// value is what is the case.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Value string `json:"value"`
}

// ClusterProfileList is a list of profiles.
//
// +kubebuilder:object:root=true
type ClusterProfileList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	// items are the profiles.
	Items []ClusterProfile `json:"items"`
}
