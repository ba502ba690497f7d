# terraform apply -invoke=action.muster_detach_cluster.lost
action "muster_detach_cluster" "lost" {
  config {
    managed_cluster  = "lyon"
    force            = true
    delete_namespace = true
  }
}
