ephemeral "muster_bootstrap_kubeconfig" "paris" {
  managed_cluster = "paris"
}

resource "muster_klusterlet" "paris" {
  cluster_name = "paris"

  cluster_connection = {
    kubeconfig_path = "~/.kube/paris.kubeconfig"
  }

  # Neither in the state nor in the plan. Raise the version to send a new one.
  bootstrap_kubeconfig_wo         = ephemeral.muster_bootstrap_kubeconfig.paris.kubeconfig
  bootstrap_kubeconfig_wo_version = 1
}
