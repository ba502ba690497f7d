// Package v1alpha1 holds the stored version of the API group
// addon.open-cluster-management.io.
//
// An add-on is a component that extends the fleet: a piece on the hub, an agent in
// each managed cluster, and credentials for the agent to talk to the hub. Four kinds
// describe one:
//
//   - ClusterManagementAddOn, cluster scoped: the add-on as such, where it is to be
//     installed, and its default configuration.
//   - ManagedClusterAddOn, in a cluster's namespace and with the add-on's name: the
//     add-on in that cluster.
//   - AddOnDeploymentConfig: variables, placement on nodes, registries and proxies
//     for the agent's deployment.
//   - AddOnTemplate: a whole add-on without code, as manifests and permissions.
//
// The same objects, except templates, are served as v1beta1 too, where some fields
// have another shape. The strings that travel in labels, annotations and conditions
// are in package addon, one directory up.
//
// +kubebuilder:object:generate=true
// +groupName=addon.open-cluster-management.io
package v1alpha1
