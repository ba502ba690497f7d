data "muster_manifest_work_replica_set" "web" {
  namespace = "default"
  name      = "web"
}

output "rollout" {
  value = data.muster_manifest_work_replica_set.web.summary
}

# The clusters in which an object is missing.
output "unavailable" {
  value = [for work in data.muster_manifest_work_replica_set.web.works : work.managed_cluster if work.available != "True"]
}
