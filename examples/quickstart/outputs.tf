output "placed" {
  description = "The clusters that the placement selects now."
  value       = data.muster_placement_decisions.everywhere.clusters
}
