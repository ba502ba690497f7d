resource "muster_managed_cluster" "paris" {
  name = "paris"
}

resource "muster_cluster_acceptance" "paris" {
  managed_cluster = muster_managed_cluster.paris.name
}

ephemeral "muster_bootstrap_kubeconfig" "paris" {
  managed_cluster = muster_managed_cluster.paris.name
}

resource "muster_klusterlet" "paris" {
  cluster_name       = muster_managed_cluster.paris.name
  cluster_connection = { kubeconfig_path = "~/.kube/paris.kubeconfig" }

  bootstrap_kubeconfig_wo         = ephemeral.muster_bootstrap_kubeconfig.paris.kubeconfig
  bootstrap_kubeconfig_wo_version = 1
}

resource "muster_cluster_registration" "paris" {
  managed_cluster = muster_managed_cluster.paris.name

  timeouts {
    create = "5m"
  }

  # What lets the cluster join.
  depends_on = [muster_cluster_acceptance.paris, muster_klusterlet.paris]
}
