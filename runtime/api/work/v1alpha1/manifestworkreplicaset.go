package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

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
