list "muster_cluster_acceptance" "production" {
  provider = muster

  config {
    cluster_set = "production"
  }
}
