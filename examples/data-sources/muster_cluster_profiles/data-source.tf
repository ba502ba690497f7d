# The clusters that a team may use, from the team's namespace on the hub.
data "muster_cluster_profiles" "team" {
  namespace = "team-a"
}

output "endpoints" {
  value = {
    for p in data.muster_cluster_profiles.team.profiles :
    p.name => p.properties["id.k8s.io"] if p.healthy
  }
}
