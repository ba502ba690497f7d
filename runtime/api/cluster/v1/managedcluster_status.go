package v1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ManagedClusterStatus is what is known about a managed cluster.
type ManagedClusterStatus struct {
	// conditions sum up the cluster's state. HubAcceptedManagedCluster: the hub
	// granted or withdrew the cluster's rights. ManagedClusterJoined: the agent
	// has been heard with its own certificate. ManagedClusterConditionAvailable:
	// the cluster's API server answers; Unknown when the agent fell silent.
	// ManagedClusterConditionClockSynced: hub and agent agree on the time.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// capacity adds up what all nodes have, unschedulable ones included. The
	// agent keeps keys that it does not report itself, so that other components
	// may publish quantities of their own.
	// +optional
	Capacity ResourceList `json:"capacity,omitempty"`

	// allocatable adds up what pods may use on the schedulable nodes.
	// +optional
	Allocatable ResourceList `json:"allocatable,omitempty"`

	// version is that of the software that the cluster runs.
	// +optional
	Version ManagedClusterVersion `json:"version,omitzero"`

	// clusterClaims are facts that the cluster states about itself, collected from
	// its ClusterClaim objects: the reserved names first, then at most 20 others,
	// each part in the order of the names. Placements can select on them.
	// +optional
	ClusterClaims []ManagedClusterClaim `json:"clusterClaims,omitempty"`

	// managedNamespaces are the namespaces that the cluster's sets want to exist in
	// it. The hub writes name and set, the agent creates the namespace and
	// reports with the conditions of the entry.
	// +optional
	// +listType=map
	// +listMapKey=clusterSet
	// +listMapKey=name
	ManagedNamespaces []ClusterSetManagedNamespaceConfig `json:"managedNamespaces,omitempty"`
}

// ResourceName names a countable resource of a cluster, such as cpu or memory.
type ResourceName string

const (
	// ResourceCPU counts processor cores (0.5 is half a core, also written 500m).
	ResourceCPU ResourceName = "cpu"

	// ResourceMemory counts memory in bytes.
	ResourceMemory ResourceName = "memory"
)

// ResourceList maps resources to amounts in the notation of Kubernetes quantities.
type ResourceList map[ResourceName]resource.Quantity

// ManagedClusterVersion is the software of a managed cluster.
type ManagedClusterVersion struct {
	// kubernetes is the version that the cluster's API server reports, such as v1.37.1.
	// +optional
	Kubernetes string `json:"kubernetes,omitempty"`
}

// ManagedClusterClaim is one name and value that a managed cluster states about itself.
type ManagedClusterClaim struct {
	// name of the claim, unique within the cluster.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// value of the claim.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Value string `json:"value,omitempty"`
}

// ClusterSetManagedNamespaceConfig is a namespace that a cluster set wants in
// each of its clusters, seen from one of them.
type ClusterSetManagedNamespaceConfig struct {
	// name of the namespace in the managed cluster.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// clusterSet is the set that asks for the namespace.
	// +required
	ClusterSet string `json:"clusterSet"`

	// conditions report on this one namespace. NamespaceAvailable is True once
	// the agent has created it or taken it over.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
