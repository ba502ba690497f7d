resource "muster_managed_cluster" "paris" {
  name        = "paris"
  cluster_set = "production"

  labels = {
    region = "eu"
  }

  # Nothing new is placed here while the cluster is being upgraded.
  taints = [{
    key    = "example.com/upgrade"
    effect = "NoSelectIfNew"
  }]
}
