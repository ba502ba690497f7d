// Package multicluster holds the labels, names and condition types of the group
// multicluster.x-k8s.io, the cluster inventory of Kubernetes' SIG Multicluster.
package multicluster

// GroupName is the API group of cluster profiles.
const GroupName = "multicluster.x-k8s.io"

// Labels of a ClusterProfile.
const (
	// ClusterManagerLabel names the cluster manager that keeps the profile.
	ClusterManagerLabel = "x-k8s.io/cluster-manager"
	// ClusterSetLabel names the cluster set of the profile's cluster.
	ClusterSetLabel = "multicluster.x-k8s.io/clusterset"
)

// ClusterManagerName is what Open Cluster Management calls itself as a cluster
// manager.
const ClusterManagerName = "open-cluster-management"

// Condition types of a ClusterProfile.
const (
	// ConditionControlPlaneHealthy is the cluster's availability.
	ConditionControlPlaneHealthy = "ControlPlaneHealthy"
	// ConditionJoined says whether the cluster has joined its hub.
	ConditionJoined = "Joined"
)
