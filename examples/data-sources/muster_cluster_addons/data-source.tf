# What does not work, in the whole fleet.
data "muster_cluster_addons" "broken" {
  available = "False"
}

# What one cluster has.
data "muster_cluster_addons" "paris" {
  managed_cluster = "paris"
}

output "broken_addons" {
  value = [for a in data.muster_cluster_addons.broken.addons : "${a.managed_cluster}/${a.name}: ${a.problem}"]
}
