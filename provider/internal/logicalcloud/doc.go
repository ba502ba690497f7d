// Package logicalcloud has the resources muster_logical_cloud,
// muster_logical_cloud_wait and muster_access_role, and the data source
// muster_logical_cloud: a namespace with quotas and rights in many clusters, and
// what may be granted there.
package logicalcloud
