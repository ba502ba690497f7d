list "muster_cluster_addon" "paris" {
  provider = muster

  config {
    managed_cluster = "paris"
  }
}
