# For an agent in a machine image. It is bound to one cluster and kept in the state,
# unlike the ephemeral muster_bootstrap_kubeconfig.
resource "muster_bootstrap_token" "edge" {
  managed_cluster = "edge-17"
  ttl             = "24h"
  description     = "machine image of edge-17"
}

# For a factory that ships up to 20 clusters. Clusters that join with it are labelled
# and added to the set "edge"; an administrator approves each. used_by lists them.
# Once the token is destroyed, no other cluster can join with it.
resource "muster_bootstrap_token" "factory" {
  ttl          = "720h"
  description  = "edge factory"
  max_clusters = 20
  cluster_labels = {
    env                                             = "edge"
    "cluster.open-cluster-management.io/clusterset" = "edge"
  }
}

# For the agents of stores that the hub expects by their client IDs: each takes over
# the muster_managed_cluster with its client_id, and may say where it is.
resource "muster_bootstrap_token" "stores" {
  ttl            = "72h"
  client_ids     = ["store-17", "store-18"]
  allowed_labels = ["site", "example.com/*"]
}
