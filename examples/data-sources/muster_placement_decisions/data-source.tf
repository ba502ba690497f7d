data "muster_placement_decisions" "europe" {
  namespace = "default"
  placement = "europe"

  # Waits until there are at least two.
  min_clusters = 2
}

output "chosen" {
  value = data.muster_placement_decisions.europe.clusters
}

# The clusters that a rollout takes first.
data "muster_placement_decisions" "canary" {
  namespace  = "default"
  placement  = "europe"
  group_name = "canary"
}
