# Placements in this namespace of the hub may select clusters of the set.
resource "muster_managed_cluster_set_binding" "production" {
  namespace   = "default"
  cluster_set = "production"
}
