package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PlacementDecision is a part of a placement's answer: up to 100 selected clusters
// of one decision group. Consumers list all objects with the label
// cluster.open-cluster-management.io/placement; the labels
// cluster.open-cluster-management.io/decision-group-index and
// cluster.open-cluster-management.io/decision-group-name name the group. The
// scheduler owns the objects and repairs what others change.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced
type PlacementDecision struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// status holds the selected clusters. The kind has no spec.
	// +optional
	Status PlacementDecisionStatus `json:"status,omitzero"`
}

// PlacementDecisionStatus is a list of selected clusters.
type PlacementDecisionStatus struct {
	// decisions are the selected clusters in the order of their names. The list
	// has to be there even when it is empty: in Go, set an empty slice and not nil.
	// +required
	Decisions []ClusterDecision `json:"decisions"`
}

// ClusterDecision is one selected cluster.
type ClusterDecision struct {
	// clusterName is the name of the ManagedCluster.
	// +required
	ClusterName string `json:"clusterName"`

	// reason says why the cluster was selected. The scheduler leaves it empty.
	// +required
	Reason string `json:"reason"`

	// score is the total by which the cluster was ranked. The field is part of the
	// API, but schedulers do not write it yet.
	// +optional
	Score *int64 `json:"score,omitempty"`
}

// PlacementDecisionList is a list of placement decisions.
//
// +kubebuilder:object:root=true
type PlacementDecisionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	// items are the decisions.
	Items []PlacementDecision `json:"items"`
}
