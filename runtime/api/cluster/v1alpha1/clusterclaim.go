package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterClaim is one fact that a managed cluster states about itself, such as
// its platform or its identity. The object's name is the claim's name. It lives
// in the managed cluster; the agent copies it into the status of the
// ManagedCluster on the hub, unless it carries the label
// open-cluster-management.io/spoke-only (with any value).
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
type ClusterClaim struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec holds the claim's value.
	// +optional
	Spec ClusterClaimSpec `json:"spec,omitzero"`
}

// ClusterClaimSpec is the content of a claim.
type ClusterClaimSpec struct {
	// value of the claim: free text, 1 to 1024 characters.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Value string `json:"value,omitempty"`
}

// ClusterClaimList is a list of cluster claims.
//
// +kubebuilder:object:root=true
type ClusterClaimList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	// items are the claims.
	Items []ClusterClaim `json:"items"`
}
