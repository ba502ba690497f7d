resource "muster_cluster_registration" "paris" {
  managed_cluster = "paris"

  timeouts {
    create = "5m"
  }

  # What lets the cluster join.
  depends_on = [muster_cluster_acceptance.paris, muster_klusterlet.paris]
}
