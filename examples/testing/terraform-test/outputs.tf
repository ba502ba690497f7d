output "placements" {
  description = "The placement of each stage."
  value       = { for stage, placement in muster_placement.stage : stage => "${placement.namespace}/${placement.name}" }
}
