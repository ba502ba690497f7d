list "muster_manifest_work_replica_set" "shop" {
  provider = muster

  config {
    namespace = "shop"
  }
}
