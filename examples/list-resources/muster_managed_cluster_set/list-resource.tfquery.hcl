list "muster_managed_cluster_set" "team" {
  provider = muster

  config {
    label_selector = "team=shop"
  }
}
