list "muster_managed_cluster" "all" {
  provider = muster
}

list "muster_cluster_acceptance" "all" {
  provider = muster
}

list "muster_managed_cluster_set" "all" {
  provider = muster
}

list "muster_managed_cluster_set_binding" "all" {
  provider = muster
}

list "muster_namespace" "all" {
  provider = muster
  config {
    name = "fleet-*"
  }
}

list "muster_placement" "all" {
  provider = muster
}

list "muster_manifest_work" "all" {
  provider = muster
  limit    = 1000
}

list "muster_manifest_work_replica_set" "all" {
  provider = muster
}
