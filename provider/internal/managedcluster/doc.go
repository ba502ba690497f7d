// Package managedcluster has the resource muster_managed_cluster and the data
// sources of managed clusters and cluster profiles.
package managedcluster
