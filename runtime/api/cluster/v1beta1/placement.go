package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Placement selects managed clusters out of the cluster sets that are bound to
// its namespace and keeps the selection current while clusters come, go and
// change. The answer is in the PlacementDecisions that carry the label
// cluster.open-cluster-management.io/placement with this placement's name.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced
// +kubebuilder:printcolumn:name="Succeeded",type=string,JSONPath=`.status.conditions[?(@.type=="PlacementSatisfied")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="PlacementSatisfied")].reason`
// +kubebuilder:printcolumn:name="SelectedClusters",type=integer,JSONPath=`.status.numberOfSelectedClusters`
type Placement struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec says which clusters are wanted.
	// +required
	Spec PlacementSpec `json:"spec"`

	// status sums up what was selected.
	// +optional
	Status PlacementStatus `json:"status,omitzero"`
}

// PlacementSpec says which clusters are wanted. An empty one selects every
// cluster without taints of the sets bound to the namespace.
type PlacementSpec struct {
	// clusterSets narrows the choice to these cluster sets. Each has to be bound
	// to the placement's namespace; the others are ignored. Left out, all bound
	// sets take part.
	// +optional
	ClusterSets []string `json:"clusterSets,omitempty"`

	// numberOfClusters is how many clusters to select at most. Left out, all that
	// qualify; 0 selects none.
	// +optional
	NumberOfClusters *int32 `json:"numberOfClusters,omitempty"`

	// predicates are the alternatives by which a cluster can qualify: one matching
	// entry is enough. Left out, every cluster qualifies.
	// +optional
	Predicates []ClusterPredicate `json:"predicates,omitempty"`

	// prioritizerPolicy says by which scores the qualifying clusters are ranked.
	// +optional
	PrioritizerPolicy PrioritizerPolicy `json:"prioritizerPolicy,omitzero"`

	// spreadPolicy asks for an even spread over regions, providers and the like
	// when numberOfClusters limits the selection. Hubs of muster honour it;
	// upstream's ignore it so far.
	// +optional
	SpreadPolicy SpreadPolicy `json:"spreadPolicy,omitzero"`

	// tolerations excuse taints of clusters. Without a matching one, a taint with
	// the effect NoSelect excludes its cluster.
	// +optional
	Tolerations []Toleration `json:"tolerations,omitempty"`

	// decisionStrategy divides the selected clusters into groups.
	// +optional
	DecisionStrategy DecisionStrategy `json:"decisionStrategy,omitzero"`

	// sortBy chooses the order of the clusters in the decisions: by ClusterName or
	// by Score, the best first. Hubs of muster honour it; upstream's sort by name
	// so far.
	// +optional
	// +kubebuilder:default=ClusterName
	SortBy PlacementSortBy `json:"sortBy,omitempty"`

	// scoreRateLimit is the shortest time between two updates of the decisions
	// that only follow a change of scores: a number with one of the units h, m and
	// s. The field is part of the API, but schedulers do not act on it yet.
	// +optional
	// +kubebuilder:default="1m"
	// +kubebuilder:validation:Pattern=`^[0-9]+[hms]$`
	ScoreRateLimit string `json:"scoreRateLimit,omitempty"`
}

// PlacementSortBy is an order of clusters in decisions.
//
// +kubebuilder:validation:Enum=ClusterName;Score
type PlacementSortBy string

const (
	// PlacementSortByClusterName orders by the names of the clusters.
	PlacementSortByClusterName PlacementSortBy = "ClusterName"

	// PlacementSortByScore orders by score, the best first.
	PlacementSortByScore PlacementSortBy = "Score"
)

// PlacementStatus sums up a placement's selection.
type PlacementStatus struct {
	// numberOfSelectedClusters counts the clusters in all decisions.
	// +optional
	NumberOfSelectedClusters int32 `json:"numberOfSelectedClusters"`

	// decisionGroups lists the groups into which the selected clusters fall, in
	// the order of their indexes. There is at least one, if need be empty.
	// +optional
	DecisionGroups []DecisionGroupStatus `json:"decisionGroups,omitempty"`

	// lastScoreUpdateTime is when the decisions last followed a change of scores.
	// The field is part of the API, but schedulers do not write it yet.
	// +optional
	LastScoreUpdateTime *metav1.Time `json:"lastScoreUpdateTime,omitempty"`

	// conditions: PlacementMisconfigured is True when the spec cannot be
	// understood. PlacementSatisfied is True when as many clusters were found as
	// were asked for, and otherwise says why not.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// DecisionGroupStatus is one group of selected clusters.
type DecisionGroupStatus struct {
	// decisionGroupIndex numbers the groups of the placement, from 0.
	// +optional
	DecisionGroupIndex int32 `json:"decisionGroupIndex"`

	// decisionGroupName is the name that the group has in the placement's
	// decisionStrategy, and empty for the clusters that no named group took.
	// Several groups share a name when the clusters of one were too many.
	// +optional
	DecisionGroupName string `json:"decisionGroupName,omitempty"`

	// decisions names the PlacementDecision objects that hold the group's
	// clusters.
	// +optional
	Decisions []string `json:"decisions,omitempty"`

	// clusterCount counts the group's clusters.
	// +optional
	// +kubebuilder:default=0
	ClustersCount int32 `json:"clusterCount"`
}

// PlacementList is a list of placements.
//
// +kubebuilder:object:root=true
type PlacementList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	// items are the placements.
	Items []Placement `json:"items"`
}
