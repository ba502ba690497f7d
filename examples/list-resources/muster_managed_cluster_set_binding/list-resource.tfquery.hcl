list "muster_managed_cluster_set_binding" "shop" {
  provider = muster

  config {
    namespace = "shop"
  }
}
