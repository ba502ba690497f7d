output "connection" {
  description = "How Terraform reaches the cluster: the argument connection of fleet-onboarding, or cluster_connection of muster_klusterlet."
  value       = local.connection
}

output "cluster" {
  description = "The cluster as an entry of the argument clusters of fleet-onboarding."
  value = {
    connection  = local.connection
    cluster_set = var.cluster_set
    labels      = local.labels
  }
}
