list "muster_cluster_registration" "production" {
  provider = muster

  config {
    cluster_set = "production"
  }
}
