moved {
  from = kubernetes_manifest.everywhere
  to   = muster_placement.everywhere
}

resource "muster_placement" "everywhere" {
  namespace          = "shop"
  name               = "everywhere"
  cluster_sets       = ["production"]
  number_of_clusters = 2
}

moved {
  from = kubectl_manifest.production
  to   = muster_managed_cluster_set.production
}

resource "muster_managed_cluster_set" "production" {
  name = "production"
}
