package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ManifestWorkReplicaSetStatus sums up the works of a replica set.
type ManifestWorkReplicaSetStatus struct {
	// conditions. PlacementVerified: the placements exist and select clusters.
	// PlacementRolledOut: the template has succeeded in every selected cluster.
	// ManifestworkApplied: the works are available and none is progressing or
	// degraded.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// summary counts the works of all placements.
	// +optional
	Summary ManifestWorkReplicaSetSummary `json:"summary,omitzero"`

	// placementSummary counts the works placement by placement.
	// +optional
	PlacementsSummary []PlacementSummary `json:"placementSummary,omitempty"`
}

// ManifestWorkReplicaSetSummary counts works by what their conditions say. One work
// can be counted under several headings.
type ManifestWorkReplicaSetSummary struct {
	// total counts the works that have the present template.
	// +optional
	Total int `json:"total"`

	// applied counts the works whose condition Applied is True.
	// +optional
	Applied int `json:"applied"`

	// available counts the works whose condition Available is True.
	// +optional
	Available int `json:"available"`

	// progressing counts the works whose condition Progressing is True.
	// +optional
	Progressing int `json:"progressing"`

	// degraded counts the works whose condition Degraded is True.
	// +optional
	Degraded int `json:"degraded"`

	// desiredTotal is meant to count the works that there should be. The field is
	// part of the API, but upstream controllers do not write it.
	// +optional
	DesiredTotal int `json:"desiredTotal,omitempty"`

	// updated is meant to count the works with the latest template. The field is
	// part of the API, but upstream controllers do not write it.
	// +optional
	Updated int `json:"updated,omitempty"`
}

// PlacementSummary counts the works of one placement.
type PlacementSummary struct {
	// name of the Placement.
	// +optional
	Name string `json:"name,omitempty"`

	// availableDecisionGroups says, in words, how many decision groups the
	// placement has and how many of its clusters have the work.
	// +optional
	AvailableDecisionGroups string `json:"availableDecisionGroups,omitempty"`

	// summary counts the placement's works.
	// +optional
	Summary ManifestWorkReplicaSetSummary `json:"summary,omitzero"`
}
