ephemeral "muster_bootstrap_kubeconfig" "paris" {
  managed_cluster = "paris"
  ttl             = "15m"
}
