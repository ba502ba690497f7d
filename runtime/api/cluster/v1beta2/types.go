// Package v1beta2 holds the grouping kinds of the API group
// cluster.open-cluster-management.io: ManagedClusterSet and
// ManagedClusterSetBinding.
//
// A set gathers managed clusters, usually those of one team, stage or region. It
// is cluster scoped and grants nothing by itself. A binding, created in a
// namespace, lets the placements of that namespace draw from the set; creating
// one needs the permission "create" on managedclustersets/bind, and putting a
// cluster into a set needs "create" on managedclustersets/join.
//
// +kubebuilder:object:generate=true
// +groupName=cluster.open-cluster-management.io
package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// GroupVersion is the group and version of every kind in this package. Package kinds
// adds the kinds to a scheme.
var GroupVersion = schema.GroupVersion{Group: cluster.GroupName, Version: "v1beta2"}

// ManagedClusterSet gathers managed clusters. Two sets come with the hub: default,
// which every cluster without a set joins, and global, which has them all.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName={mclset,mclsets}
// +kubebuilder:printcolumn:name="Empty",type=string,JSONPath=`.status.conditions[?(@.type=="ClusterSetEmpty")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ManagedClusterSet struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec says which clusters belong to the set.
	// +optional
	// +kubebuilder:default={clusterSelector: {selectorType: ExclusiveClusterSetLabel}}
	Spec ManagedClusterSetSpec `json:"spec,omitzero"`

	// status says whether the set has clusters.
	// +optional
	Status ManagedClusterSetStatus `json:"status,omitzero"`
}

// ManagedClusterSetSpec says which clusters belong to a set and what the set
// wants of them.
type ManagedClusterSetSpec struct {
	// clusterSelector decides which clusters are members.
	// +optional
	// +kubebuilder:default={selectorType: ExclusiveClusterSetLabel}
	ClusterSelector ManagedClusterSelector `json:"clusterSelector,omitzero"`

	// managedNamespaces are namespaces that the agent of every member creates in
	// its cluster. When a cluster leaves the set, or the namespace leaves this
	// list, the namespace stays and only loses its mark.
	// +optional
	// +listType=map
	// +listMapKey=name
	ManagedNamespaces []ManagedNamespaceConfig `json:"managedNamespaces,omitempty"`
}

// ManagedClusterSelector decides which clusters are members of a set.
type ManagedClusterSelector struct {
	// selectorType chooses the way. ExclusiveClusterSetLabel: the clusters whose
	// label cluster.open-cluster-management.io/clusterset has the set's name, so
	// that a cluster is in one such set only. LabelSelector: the clusters that
	// labelSelector matches, whatever other sets they are in.
	// +required
	// +kubebuilder:default=ExclusiveClusterSetLabel
	SelectorType SelectorType `json:"selectorType,omitempty"`

	// labelSelector picks members when selectorType is LabelSelector. Left out, it
	// picks none; empty, it picks all.
	// +optional
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
}

// SelectorType is a way to decide membership in a set.
//
// +kubebuilder:validation:Enum=ExclusiveClusterSetLabel;LabelSelector
type SelectorType string

const (
	// ExclusiveClusterSetLabel goes by the label that names the cluster's one set.
	ExclusiveClusterSetLabel SelectorType = "ExclusiveClusterSetLabel"

	// LabelSelector goes by a selector over the labels of clusters.
	LabelSelector SelectorType = "LabelSelector"
)

// ManagedNamespaceConfig is a namespace to create in every member of a set.
type ManagedNamespaceConfig struct {
	// name of the namespace.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
}

// ManagedClusterSetStatus says whether a set has clusters.
type ManagedClusterSetStatus struct {
	// conditions: ClusterSetEmpty is True while no cluster is a member; when it is
	// False its message counts them.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ManagedClusterSetList is a list of cluster sets.
//
// +kubebuilder:object:root=true
type ManagedClusterSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	// items are the sets.
	Items []ManagedClusterSet `json:"items"`
}

// ManagedClusterSetBinding lets the placements of its namespace draw from a
// cluster set. It has to bear the name of the set.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName={mclsetbinding,mclsetbindings}
type ManagedClusterSetBinding struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec names the set.
	// +optional
	Spec ManagedClusterSetBindingSpec `json:"spec,omitzero"`

	// status says whether the set exists.
	// +optional
	Status ManagedClusterSetBindingStatus `json:"status,omitzero"`
}

// ManagedClusterSetBindingSpec names a cluster set.
type ManagedClusterSetBindingSpec struct {
	// clusterSet is the name of the ManagedClusterSet, and the same as the name of
	// this object.
	// +optional
	// +kubebuilder:validation:MinLength=1
	ClusterSet string `json:"clusterSet,omitempty"`
}

// ManagedClusterSetBindingStatus says whether a binding has taken effect.
type ManagedClusterSetBindingStatus struct {
	// conditions: Bound is True while the set exists.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ManagedClusterSetBindingList is a list of bindings.
//
// +kubebuilder:object:root=true
type ManagedClusterSetBindingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	// items are the bindings.
	Items []ManagedClusterSetBinding `json:"items"`
}
