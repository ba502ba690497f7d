removed {
  from = kubernetes_manifest.everywhere
  lifecycle {
    destroy = false
  }
}

import {
  to = muster_placement.everywhere
  id = "shop/everywhere"
}

resource "muster_placement" "everywhere" {
  namespace          = "shop"
  name               = "everywhere"
  cluster_sets       = ["production"]
  number_of_clusters = 2
}
