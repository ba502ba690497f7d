output "progress" {
  description = "How far the rollout is."
  value       = module.greeter.progress
}

output "available" {
  description = "Whether the add-on works, cluster by cluster."
  value       = { for c in data.muster_addon.greeter.clusters : c.managed_cluster => c.available }
}
