# For an agent that a machine image brings along. It is bound to one cluster and
# kept in the state: the ephemeral muster_bootstrap_kubeconfig leaves no trace.
resource "muster_bootstrap_token" "edge" {
  managed_cluster = "edge-17"
  ttl             = "24h"
  description     = "machine image of edge-17"
}
