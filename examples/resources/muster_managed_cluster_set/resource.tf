# Clusters join it by their cluster_set.
resource "muster_managed_cluster_set" "production" {
  name = "production"
}
