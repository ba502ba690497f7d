package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AddOnPlacementScore offers numbers about one managed cluster for placements to
// schedule by: cost, latency, free accelerators, whatever its author measures.
// It lives on the hub in the namespace of the cluster it is about. A placement
// refers to it by the object's name and the name of a score in it, so give the
// object the same name in every cluster's namespace.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced
type AddOnPlacementScore struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// status holds the scores. The kind has no spec: the
	// author of a score only reports it.
	// +optional
	Status AddOnPlacementScoreStatus `json:"status,omitzero"`
}

// AddOnPlacementScoreStatus is the scores of one cluster.
type AddOnPlacementScoreStatus struct {
	// conditions are for the author of the scores to say how the measuring goes.
	// Placements do not read them.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// scores by name.
	// +optional
	// +listType=map
	// +listMapKey=name
	Scores []AddOnPlacementScoreItem `json:"scores,omitempty"`

	// validUntil is when the scores go stale. From then on each counts as 0 and
	// placements that use them warn. Left out, they never go stale.
	// +optional
	ValidUntil *metav1.Time `json:"validUntil,omitempty"`
}

// AddOnPlacementScoreItem is one named score.
type AddOnPlacementScoreItem struct {
	// name of the score, unique within the object.
	// +required
	Name string `json:"name"`

	// value of the score, from -100 (worst) to 100 (best). 0 is neutral, and is
	// also what a cluster without the score gets.
	// +required
	// +kubebuilder:validation:Minimum=-100
	// +kubebuilder:validation:Maximum=100
	Value int32 `json:"value"`
}

// AddOnPlacementScoreList is a list of placement scores.
//
// +kubebuilder:object:root=true
type AddOnPlacementScoreList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	// items are the score objects.
	Items []AddOnPlacementScore `json:"items"`
}
