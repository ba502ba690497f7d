// Package clusterimport has the resource and the data source muster_cluster_import: a
// cluster in which the hub installs the agent, through a kubeconfig that Terraform
// hands in and keeps nowhere.
package clusterimport
