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
