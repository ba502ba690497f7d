// Package addon has the resources and data sources of add-ons: muster_addon, what
// an add-on is and where it is installed; muster_cluster_addon, the add-on in one
// cluster; muster_addon_template and muster_addon_deployment_config, what an add-on
// consists of and how its agents run.
//
// It writes v1alpha1 of the API group, which every hub serves and stores: older
// upstream hubs serve nothing else.
package addon
