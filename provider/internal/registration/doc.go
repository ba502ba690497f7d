// Package registration is how a cluster joins, seen from the hub: bootstrap
// tokens and kubeconfigs, the acceptance of a cluster, the approval of its
// certificate request, and the wait for it. It does nothing in the managed
// cluster; package klusterlet does.
package registration
