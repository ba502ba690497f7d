list "muster_manifest_work" "web" {
  provider = muster

  config {
    managed_cluster = "prod-*"
    label_selector  = "app=web"
  }
}
