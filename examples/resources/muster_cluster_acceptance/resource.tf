resource "muster_managed_cluster" "paris" {
  name = "paris"
}

resource "muster_cluster_acceptance" "paris" {
  managed_cluster = muster_managed_cluster.paris.name
}

# A cluster that is registered and denied: its agent loses its rights, and workloads
# keep running. true accepts it again, with the same certificate.
resource "muster_cluster_acceptance" "rome" {
  managed_cluster = "rome"
  accepted        = false
}
