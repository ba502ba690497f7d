// Package access has the resource muster_access_request, the data source
// muster_access_subject and the ephemeral resource muster_cluster_kubeconfig: a
// user's way into the clusters of a logical cloud.
package access
