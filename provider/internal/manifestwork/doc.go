// Package manifestwork has the resource and the data source
// muster_manifest_work: Kubernetes objects for one managed cluster. Package
// replicaset shares its options.
package manifestwork
