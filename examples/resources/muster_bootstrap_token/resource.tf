# For an agent that a machine image brings along. It is bound to one cluster and
# kept in the state: the ephemeral muster_bootstrap_kubeconfig leaves no trace.
resource "muster_bootstrap_token" "edge" {
  managed_cluster = "edge-17"
  ttl             = "24h"
  description     = "machine image of edge-17"
}

# For a factory that ships up to 20 clusters. Whatever joins with it is labelled
# and lands in the set "edge"; an administrator approves each. used_by tells who
# came, and destroying the token stops all who have not.
resource "muster_bootstrap_token" "factory" {
  ttl          = "720h"
  description  = "edge factory"
  max_clusters = 20
  cluster_labels = {
    env                                             = "edge"
    "cluster.open-cluster-management.io/clusterset" = "edge"
  }
}
