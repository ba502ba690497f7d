# Access to one cluster for this run. The key is made in memory, and access is
# withdrawn when the run ends. The provider "kubernetes" takes host,
# cluster_ca_certificate, client_certificate, client_key and token as they are.
ephemeral "muster_cluster_kubeconfig" "paris" {
  logical_cloud   = "team-a/prod"
  managed_cluster = "paris"
  ttl             = "1h"
}

# A kubeconfig for several clusters, for a program that the run starts.
ephemeral "muster_cluster_kubeconfig" "europe" {
  logical_cloud    = "team-a/prod"
  managed_clusters = ["paris", "rome"]
}
