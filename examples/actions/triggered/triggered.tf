# Accepts a cluster, and reports how it joins until it is available.
resource "muster_managed_cluster" "paris" {
  name = "paris"
}

resource "muster_cluster_acceptance" "paris" {
  managed_cluster = muster_managed_cluster.paris.name

  lifecycle {
    action_trigger {
      events  = [after_create]
      actions = [action.muster_wait_joined.paris]
    }
  }
}

action "muster_wait_joined" "paris" {
  config {
    managed_clusters = [muster_managed_cluster.paris.name]
  }
}
