list "muster_placement" "shop" {
  provider = muster

  config {
    namespace   = "shop"
    cluster_set = "production"
  }
}
