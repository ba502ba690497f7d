resource "muster_managed_cluster" "paris" {
  name = "paris"
}

resource "muster_cluster_acceptance" "paris" {
  managed_cluster = muster_managed_cluster.paris.name
}

# A cluster that is to stay, and to stay out: its agent loses its rights, what
# runs in it keeps running. true lets it in again, with the same certificate.
resource "muster_cluster_acceptance" "rome" {
  managed_cluster = "rome"
  accepted        = false
}
