# terraform apply -invoke=action.muster_deny_cluster.paris
action "muster_deny_cluster" "paris" {
  config {
    managed_cluster = "paris"
  }
}
