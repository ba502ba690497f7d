# Placements in this namespace of the hub may choose clusters of the set.
resource "muster_managed_cluster_set_binding" "production" {
  namespace   = "default"
  cluster_set = "production"
}
