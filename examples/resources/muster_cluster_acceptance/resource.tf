resource "muster_managed_cluster" "paris" {
  name = "paris"
}

resource "muster_cluster_acceptance" "paris" {
  managed_cluster = muster_managed_cluster.paris.name
}
