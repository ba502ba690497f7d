output "name" {
  description = "The add-on, for the data source muster_addon, which says how it is in every cluster."
  value       = muster_addon.this.name
}

output "template" {
  description = "Name of the present template."
  value       = muster_addon_template.this.name
}

output "rolled_out" {
  description = "Whether every selected cluster has the present objects."
  value       = muster_addon.this.rolled_out
}

output "progress" {
  description = "How far the rollout is, in the hub's words."
  value       = one(muster_addon.this.install_progressions[*].message)
}

output "clusters" {
  description = "The clusters that have the add-on."
  value       = muster_addon.this.installed_clusters
}
