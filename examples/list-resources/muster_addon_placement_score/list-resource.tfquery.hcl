list "muster_addon_placement_score" "latency" {
  provider = muster

  config {
    name        = "latency"
    cluster_set = "production"
  }
}
