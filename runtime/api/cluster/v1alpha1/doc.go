// Package v1alpha1 holds the alpha kinds of the API group
// cluster.open-cluster-management.io, and the rollout strategy that the work and
// add-on APIs share.
//
//   - ClusterClaim lives in the managed cluster. It is a fact that the cluster
//     states about itself; the agent carries it to the hub, into
//     ManagedCluster.status.clusterClaims, where placements can select on it.
//   - AddOnPlacementScore lives on the hub, in the cluster's namespace. A program
//     that measures something worth scheduling by writes numbers into its status,
//     and placements weigh them.
//   - RolloutStrategy is no kind of its own. It says in which order and with
//     how much caution a change reaches the clusters of a placement.
//
// +kubebuilder:object:generate=true
// +groupName=cluster.open-cluster-management.io
package v1alpha1
