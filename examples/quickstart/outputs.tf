output "clusters" {
  description = "The clusters that the placement chose."
  value       = data.muster_placement_decisions.everywhere.clusters
}
