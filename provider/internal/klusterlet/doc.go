// Package klusterlet has the resource muster_klusterlet: it installs, updates and
// removes the agent in a managed cluster, through that cluster's own connection. It
// also has the attributes that say how an agent runs, which muster_cluster_import,
// muster_addon_deployment_config and the function klusterlet_manifests share.
package klusterlet
