// Package replicaset has the resource and the data source
// muster_manifest_work_replica_set: the same objects for every cluster that
// placements select.
package replicaset
