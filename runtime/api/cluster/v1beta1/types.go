// Package v1beta1 holds the scheduling kinds of the API group
// cluster.open-cluster-management.io: Placement and PlacementDecision.
//
// A Placement asks for managed clusters; the hub's scheduler answers with
// PlacementDecisions beside it, at most 100 clusters each. The question passes
// through these steps, each with its part in PlacementSpec:
//
//  1. The namespace of the placement may only draw from the cluster sets that are
//     bound to it (ManagedClusterSetBinding); spec.clusterSets narrows them down.
//  2. spec.predicates drop the clusters that do not match.
//  3. Taints drop clusters that spec.tolerations do not excuse.
//  4. spec.prioritizerPolicy scores the rest, each prioritizer from -100 to 100.
//  5. The best spec.numberOfClusters of them are chosen.
//  6. spec.decisionStrategy sorts the chosen ones into groups, which rollouts
//     take in turn.
//
// Whether a cluster is accepted or available is not asked: clusters in trouble
// carry taints, and step 3 sees to it.
//
// +kubebuilder:object:generate=true
// +groupName=cluster.open-cluster-management.io
package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// GroupVersion is the group and version of every kind in this package. Package kinds
// adds the kinds to a scheme.
var GroupVersion = schema.GroupVersion{Group: cluster.GroupName, Version: "v1beta1"}

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

// PrioritizerPolicy says by which scores clusters are ranked. A cluster's total is
// the sum of its scores, each times its weight; equal totals rank by name.
type PrioritizerPolicy struct {
	// mode says what becomes of the prioritizers that are not configured here.
	// Additive: Balance and Steady take part with weight 1. Exact: only the
	// configured ones count.
	// +optional
	// +kubebuilder:default=Additive
	Mode PrioritizerPolicyModeType `json:"mode,omitempty"`

	// configurations choose prioritizers and their weights.
	// +optional
	Configurations []PrioritizerConfig `json:"configurations,omitempty"`
}

// PrioritizerPolicyModeType says how configured and default prioritizers combine.
type PrioritizerPolicyModeType string

const (
	// PrioritizerPolicyModeAdditive adds the configurations to the defaults and
	// overrides those of the same name.
	PrioritizerPolicyModeAdditive PrioritizerPolicyModeType = "Additive"

	// PrioritizerPolicyModeExact uses the configurations and nothing else.
	PrioritizerPolicyModeExact PrioritizerPolicyModeType = "Exact"
)

// PrioritizerConfig gives a prioritizer its weight.
type PrioritizerConfig struct {
	// scoreCoordinate says where the score comes from.
	// +required
	ScoreCoordinate *ScoreCoordinate `json:"scoreCoordinate,omitempty"`

	// weight multiplies the score, from -10 to 10. 0 switches the prioritizer off,
	// a negative weight prefers low scores. Left out, it is 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=-10
	// +kubebuilder:validation:Maximum=10
	Weight *int32 `json:"weight,omitempty"`
}

// ScoreCoordinate says where a score comes from.
type ScoreCoordinate struct {
	// type is BuiltIn for the scheduler's own prioritizers and AddOn for scores
	// from AddOnPlacementScore objects.
	// +required
	// +kubebuilder:default=BuiltIn
	// +kubebuilder:validation:Enum=BuiltIn;AddOn
	Type string `json:"type,omitempty"`

	// builtIn names one of the scheduler's own prioritizers. Balance prefers
	// clusters that few other placements chose. Steady prefers clusters that this
	// placement has already. ResourceAllocatableCPU and ResourceAllocatableMemory
	// prefer clusters with much of it to give.
	// +optional
	BuiltIn string `json:"builtIn,omitempty"`

	// addOn names a score of an AddOnPlacementScore; needed with the type AddOn.
	// +optional
	AddOn *AddOnScore `json:"addOn,omitempty"`
}

const (
	// ScoreCoordinateTypeBuiltIn is the type of the scheduler's own prioritizers.
	ScoreCoordinateTypeBuiltIn = "BuiltIn"

	// ScoreCoordinateTypeAddOn is the type of scores from AddOnPlacementScore objects.
	ScoreCoordinateTypeAddOn = "AddOn"
)

// AddOnScore is the address of a score within each cluster's namespace.
type AddOnScore struct {
	// resourceName is the name of the AddOnPlacementScore object.
	// +required
	ResourceName string `json:"resourceName"`

	// scoreName is the name of the score in it.
	// +required
	ScoreName string `json:"scoreName"`
}

// SpreadPolicy asks for an even spread of the selected clusters.
type SpreadPolicy struct {
	// spreadConstraints, the most important first.
	// +optional
	// +kubebuilder:validation:MaxItems=8
	SpreadConstraints []SpreadConstraintsTerm `json:"spreadConstraints,omitempty"`
}

// SpreadConstraintsTerm asks for an even spread over the values of one key.
type SpreadConstraintsTerm struct {
	// topologyKey is the label or claim whose values divide the clusters.
	// +required
	// +kubebuilder:validation:MaxLength=316
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$`
	TopologyKey string `json:"topologyKey"`

	// topologyKeyType says whether topologyKey is a Label or a Claim.
	// +required
	TopologyKeyType TopologyKeyType `json:"topologyKeyType"`

	// maxSkew is by how many clusters the fullest and the emptiest value may differ.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	MaxSkew int32 `json:"maxSkew,omitempty"`

	// whenUnsatisfiable says what to do when maxSkew cannot be kept: leave
	// clusters out (DoNotSchedule) or select them all the same (ScheduleAnyway).
	// +optional
	// +kubebuilder:default=ScheduleAnyway
	WhenUnsatisfiable UnsatisfiableMaxSkewAction `json:"whenUnsatisfiable,omitempty"`
}

// TopologyKeyType is the kind of key that divides clusters.
//
// +kubebuilder:validation:Enum=Label;Claim
type TopologyKeyType string

const (
	// TopologyKeyTypeLabel divides clusters by a label.
	TopologyKeyTypeLabel TopologyKeyType = "Label"

	// TopologyKeyTypeClaim divides clusters by a claim.
	TopologyKeyTypeClaim TopologyKeyType = "Claim"
)

// UnsatisfiableMaxSkewAction is what happens when an even spread is not possible.
//
// +kubebuilder:validation:Enum=DoNotSchedule;ScheduleAnyway
type UnsatisfiableMaxSkewAction string

const (
	// DoNotSchedule leaves out the clusters that would break the spread.
	DoNotSchedule UnsatisfiableMaxSkewAction = "DoNotSchedule"

	// ScheduleAnyway selects them and keeps the spread as even as it gets.
	ScheduleAnyway UnsatisfiableMaxSkewAction = "ScheduleAnyway"
)

// ClusterPredicate is one way for a cluster to qualify.
type ClusterPredicate struct {
	// requiredClusterSelector describes the clusters that qualify. An empty one
	// matches all.
	// +optional
	RequiredClusterSelector ClusterSelector `json:"requiredClusterSelector,omitzero"`
}

// ClusterSelector matches a cluster when every part of it does. A part that is
// left out matches every cluster.
type ClusterSelector struct {
	// labelSelector looks at the labels of the ManagedCluster.
	// +optional
	LabelSelector metav1.LabelSelector `json:"labelSelector,omitzero"`

	// claimSelector looks at the claims in the status of the ManagedCluster.
	// +optional
	ClaimSelector ClusterClaimSelector `json:"claimSelector,omitzero"`

	// celSelector evaluates expressions over the whole ManagedCluster.
	// +optional
	CELSelector ClusterCELSelector `json:"celSelector,omitzero"`
}

// ClusterClaimSelector matches the claims of a cluster as if they were labels.
type ClusterClaimSelector struct {
	// matchExpressions all have to hold. The operators are those of label
	// selectors: In, NotIn, Exists, DoesNotExist; the last and NotIn also match
	// clusters without the claim.
	// +optional
	MatchExpressions []metav1.LabelSelectorRequirement `json:"matchExpressions,omitempty"`
}

// ClusterCELSelector matches clusters by expressions in CEL, the Common
// Expression Language.
type ClusterCELSelector struct {
	// celExpressions all have to be true. Each sees the variable managedCluster,
	// the object as it is in the API, and the function
	// managedCluster.scores("<name>"), the scores of the AddOnPlacementScore of
	// that name as a list of objects with name and value. An expression that does
	// not compile makes the placement misconfigured; one that fails while it runs
	// only excludes the cluster at hand.
	// +optional
	CELExpressions []string `json:"celExpressions,omitempty"`
}

// Toleration excuses a cluster's taints that match it.
type Toleration struct {
	// key of the taints to tolerate. Empty, together with the operator Exists, it
	// stands for all keys.
	// +optional
	// +kubebuilder:validation:MaxLength=316
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$`
	Key string `json:"key,omitempty"`

	// operator says how value compares to the taint's. Equal: they are the same.
	// Exists: any value will do, and value must be left out.
	// +optional
	// +kubebuilder:default=Equal
	Operator TolerationOperator `json:"operator,omitempty"`

	// value of the taints to tolerate.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Value string `json:"value,omitempty"`

	// effect of the taints to tolerate. Left out, every effect.
	// +optional
	Effect clusterv1.TaintEffect `json:"effect,omitempty"`

	// tolerationSeconds is how long, counted from the taint's timeAdded, it is
	// tolerated. Left out, for ever; 0 or less, not at all.
	// +optional
	TolerationSeconds *int64 `json:"tolerationSeconds,omitempty"`
}

// TolerationOperator compares a toleration with a taint.
type TolerationOperator string

const (
	// TolerationOpEqual tolerates taints with the same value. It is the default.
	TolerationOpEqual TolerationOperator = "Equal"

	// TolerationOpExists tolerates taints with any value.
	TolerationOpExists TolerationOperator = "Exists"
)

// DecisionStrategy divides the selected clusters.
type DecisionStrategy struct {
	// groupStrategy forms the decision groups.
	// +optional
	GroupStrategy GroupStrategy `json:"groupStrategy,omitzero"`
}

// GroupStrategy forms decision groups: first the named ones, in their order, then
// groups without a name for the clusters that are left.
type GroupStrategy struct {
	// decisionGroups are the named groups. A cluster goes to the first that
	// selects it.
	// +optional
	DecisionGroups []DecisionGroup `json:"decisionGroups,omitempty"`

	// clustersPerDecisionGroup is the most clusters that a group may have: a
	// number, or a percentage, rounded up, of the selected clusters. What is
	// beyond goes to further groups of the same name.
	// +optional
	// +kubebuilder:default="100%"
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^((100|[1-9][0-9]{0,1})%|[1-9][0-9]*)$`
	ClustersPerDecisionGroup intstr.IntOrString `json:"clustersPerDecisionGroup,omitzero"`
}

// DecisionGroup is a named group and the clusters that belong to it.
type DecisionGroup struct {
	// groupName names the group. It appears as a label value on the group's
	// PlacementDecisions.
	// +required
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9][-A-Za-z0-9_.]{0,61}[a-zA-Z0-9]$`
	GroupName string `json:"groupName"`

	// groupClusterSelector picks the group's clusters out of the selected ones. An
	// empty one picks all.
	// +required
	GroupClusterSelector GroupClusterSelector `json:"groupClusterSelector"`
}

// GroupClusterSelector matches a cluster when both its parts do. It knows no CEL.
type GroupClusterSelector struct {
	// labelSelector looks at the labels of the ManagedCluster.
	// +optional
	LabelSelector metav1.LabelSelector `json:"labelSelector,omitzero"`

	// claimSelector looks at the claims in the status of the ManagedCluster.
	// +optional
	ClaimSelector ClusterClaimSelector `json:"claimSelector,omitzero"`
}

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
