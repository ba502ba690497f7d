ephemeral "muster_bootstrap_kubeconfig" "paris" {
  managed_cluster = "paris"
  ttl             = "15m"
}

# On a hub whose API server takes no bootstrap tokens.
ephemeral "muster_bootstrap_kubeconfig" "rome" {
  credential = "service_account"
  ttl        = "30m"
}
