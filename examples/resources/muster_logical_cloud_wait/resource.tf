resource "muster_logical_cloud" "prod" {
  namespace         = "team-a"
  name              = "prod"
  placements        = ["europe"]
  cluster_namespace = { name = "team-a-prod" }
  grants            = [{ role = "edit", users = ["jo@example.com"] }]
}

# Fails the run when fewer than two clusters have the namespace and the rights in
# time, and says what is wrong with the others.
resource "muster_logical_cloud_wait" "prod" {
  namespace = muster_logical_cloud.prod.namespace
  name      = muster_logical_cloud.prod.name
  min_ready = 2

  timeouts {
    create = "5m"
  }
}
