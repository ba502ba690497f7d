data "muster_logical_cloud" "prod" {
  namespace = "team-a"
  name      = "prod"
}

output "clusters_that_are_not_ready" {
  value = { for p in data.muster_logical_cloud.prod.problems : p.managed_cluster => p.message }
}
