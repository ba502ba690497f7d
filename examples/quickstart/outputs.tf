output "placed" {
  description = "The clusters that the placement chooses now."
  value       = data.muster_placement_decisions.everywhere.clusters
}
