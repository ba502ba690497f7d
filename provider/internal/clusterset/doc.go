// Package clusterset has the resources muster_managed_cluster_set and
// muster_managed_cluster_set_binding.
package clusterset
