# The clusters that a team may use, as the hub presents them in the team's
# namespace.
data "muster_cluster_profiles" "team" {
  namespace = "team-a"
}

output "endpoints" {
  value = {
    for p in data.muster_cluster_profiles.team.profiles :
    p.name => p.properties["id.k8s.io"] if p.healthy
  }
}
