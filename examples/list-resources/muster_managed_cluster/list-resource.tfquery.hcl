list "muster_managed_cluster" "production" {
  provider = muster

  config {
    name        = "prod-*"
    cluster_set = "production"
  }
}
