// Package v1alpha1 holds ManifestWorkReplicaSet, the kind of the API group
// work.open-cluster-management.io that puts one and the same ManifestWork into
// every cluster of a placement.
//
// It is to ManifestWork what a Deployment is to a Pod: a template, a set of places
// to put copies of it, and a strategy for rolling out changes of the template. Its
// controller runs on the hub and only ever writes ManifestWorks; the agents do not
// know of the replica set.
//
// +kubebuilder:object:generate=true
// +groupName=work.open-cluster-management.io
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// GroupVersion is the group and version of every kind in this package. Package kinds
// adds the kinds to a scheme.
var GroupVersion = schema.GroupVersion{Group: work.GroupName, Version: "v1alpha1"}

// ManifestWorkReplicaSet keeps a ManifestWork made from its template in the
// namespace of every managed cluster that its placements select. Works appear and
// disappear as the placements' decisions change, and a changed template is rolled
// out by the strategy of each placement.
//
// Keep namespace and name, with a dot between, within 63 characters: together they
// are a label value on the works.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName=mwrs
// +kubebuilder:printcolumn:name="Placement",type=string,JSONPath=`.status.conditions[?(@.type=="PlacementVerified")].reason`
// +kubebuilder:printcolumn:name="Found",type=string,JSONPath=`.status.conditions[?(@.type=="PlacementVerified")].status`
// +kubebuilder:printcolumn:name="ManifestWorks",type=string,JSONPath=`.status.conditions[?(@.type=="ManifestworkApplied")].reason`
// +kubebuilder:printcolumn:name="Applied",type=string,JSONPath=`.status.conditions[?(@.type=="ManifestworkApplied")].status`
type ManifestWorkReplicaSet struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec says what goes where, and how carefully.
	// +optional
	Spec ManifestWorkReplicaSetSpec `json:"spec,omitzero"`

	// status sums up the works.
	// +optional
	Status ManifestWorkReplicaSetStatus `json:"status,omitzero"`
}

// ManifestWorkReplicaSetSpec says what goes where, and how carefully.
type ManifestWorkReplicaSetSpec struct {
	// manifestWorkTemplate becomes the spec of every work.
	// +optional
	ManifestWorkTemplate workv1.ManifestWorkSpec `json:"manifestWorkTemplate,omitzero"`

	// placementRefs name the placements, in the same namespace, whose clusters get
	// the work.
	// +required
	// +kubebuilder:validation:MinItems=1
	PlacementRefs []LocalPlacementReference `json:"placementRefs"`

	// cascadeDeletionPolicy says how deletion proceeds. Either way the works are
	// deleted too; Foreground makes this object wait until they are gone,
	// Background lets it go at once.
	// +required
	// +kubebuilder:default=Background
	CascadeDeletionPolicy CascadeDeletionPolicy `json:"cascadeDeletionPolicy,omitempty"`
}

// CascadeDeletionPolicy says whether deletion waits for the works.
//
// +kubebuilder:validation:Enum=Background;Foreground
type CascadeDeletionPolicy string

const (
	// CascadeDeletionPolicyBackground does not wait for the works. It is the default.
	CascadeDeletionPolicyBackground CascadeDeletionPolicy = "Background"

	// CascadeDeletionPolicyForeground waits until the works are gone.
	CascadeDeletionPolicyForeground CascadeDeletionPolicy = "Foreground"
)

// LocalPlacementReference names a placement in the same namespace and how changes
// roll out over its clusters.
type LocalPlacementReference struct {
	// name of the Placement.
	// +required
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`

	// rolloutStrategy says how a change spreads over the placement's clusters. It
	// goes by the condition Progressing of the works, which a conditionRule in the
	// template can yield; without one, the agent finds it by itself, or else works
	// count as done once they are applied and available. Upstream's rollouts need
	// the rule for any type but All.
	// +optional
	// +kubebuilder:default={type: All, all: {progressDeadline: "None"}}
	RolloutStrategy clusterv1alpha1.RolloutStrategy `json:"rolloutStrategy,omitzero"`
}

// ManifestWorkReplicaSetList is a list of replica sets.
//
// +kubebuilder:object:root=true
type ManifestWorkReplicaSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	// items are the replica sets.
	Items []ManifestWorkReplicaSet `json:"items"`
}

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
