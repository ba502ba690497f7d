list "muster_cluster_import" "all" {
  provider = muster
}
