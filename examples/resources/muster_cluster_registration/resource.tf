resource "muster_managed_cluster" "paris" {
  name = "paris"
}

resource "muster_cluster_acceptance" "paris" {
  managed_cluster = muster_managed_cluster.paris.name
}

resource "muster_klusterlet" "paris" {
  cluster_name       = muster_managed_cluster.paris.name
  cluster_connection = { kubeconfig_path = "~/.kube/paris.kubeconfig" }
}

resource "muster_cluster_registration" "paris" {
  managed_cluster = muster_managed_cluster.paris.name

  timeouts {
    create = "5m"
  }

  # What lets the cluster join.
  depends_on = [muster_cluster_acceptance.paris, muster_klusterlet.paris]
}
